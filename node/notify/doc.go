// Package notify tells callers that transactions have changed: those that wait for one transaction,
// and those that watch all.
//
//	n, err := notify.New(closing)
//	n.Publish(effects.Changes)        // an entry was applied
//	err = n.Wait(ctx, id, isDecided)  // until isDecided reports true
//	for change, err := range n.Watch(ctx) {
//
// A change only schedules checks: an entry that is being applied waits for no waiter and no watcher.
package notify
