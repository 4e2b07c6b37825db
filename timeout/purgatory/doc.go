// Package purgatory holds requests that wait for a condition or a deadline. Call [Start] for a
// purgatory, [Purgatory.Park] for each request, and [Purgatory.Check] after each change that a
// condition may depend on:
//
//	p, err := purgatory.Start[string](purgatory.Config{})
//	...
//	defer p.Stop()
//	_, err = p.Park(request, time.Minute, "tx_1")
//	...
//	p.Check("tx_1")
//
// A [Request] is parked under one or more keys, with a timeout. The code that changes something on
// which a condition depends calls Check with its key, and the requests that watch the key are
// tried. A request is completed when its condition holds, and forcibly at its deadline, when it is
// cancelled, and when the purgatory is stopped. It is completed exactly once.
//
// # Why
//
// A caller that waits for a decision does nothing meanwhile. A goroutine that does nothing takes
// three kilobytes with its channel and its timer; a parked request takes 178 to 232 bytes of heap,
// up to 285 with the runtime's records of it, and no goroutine. Most requests end long before
// their deadline, and the difficulty is to remove them: a request stands in a timer and in the
// list of each key. This is the design of the request purgatory of Kafka, which removes both at
// once:
//
//   - The timer is a hierarchical wheel, package [github.com/txmgr/txmgr/timeout/wheel]. A
//     completed request is unlinked from it in constant time.
//   - The lists of watchers refer to requests weakly. The wheel holds the only strong pointer to a
//     parked request; so when it is out of the wheel it is garbage, whatever lists it stands in.
//   - An empty entry of a list, of a few words, is left. The runtime reports when a request has
//     been collected, and these entries are counted. When they are as many as the others the lists
//     are swept.
//
// # How
//
//	     the wheel                     the lists, in 64 shards
//	. . [bucket] . . . .              "tx_1" -> watcher -> watcher
//	       |                                       :          :     weakly
//	    request <..................................:          :
//	       |                                                  :
//	    request <.............................................:
//
// One strong pointer, in the wheel, keeps a request; the lists can reach it as long as it is
// there.
//
//   - A request's state word records whether a goroutine is trying it, whether a key was checked
//     meanwhile, which end was forced meanwhile, and whether it is completed. Every step is one
//     compare-and-swap. A goroutine that arrives while another tries sets a mark and leaves; the
//     one that tries looks for the mark before leaving. So TryComplete and Complete never run at
//     the same time, no lock is held while they run, and no wake-up is lost.
//   - Park tries, watches, and tries again. A change between the first try and the watch finds no
//     watcher to wake, and the second try sees it; a change after the watch finds the request.
//   - A list is a stack: the latest watcher comes first. A walk goes from there to the oldest, a
//     stride at a time, so it never meets later ones, and ends. It removes the watchers of
//     completed requests on its way; if one of those that it has returned to be tried is completed
//     at the end, its watcher is removed by a second pass over the lists. A watcher that was
//     removed keeps its pointer to the next, for walks that stand on it.
//   - Cleanups that the runtime runs (runtime.AddCleanup) count the watchers whose request was
//     collected; removing a watcher counts back. Every watcher is counted once each way, so the
//     difference is the number of empty ones in the lists, in whatever order collector and walks
//     reach them. When there are at least 32 and half of a shard's watchers are empty, the cleanup
//     that has counted the last of them sweeps the shard. A sweep costs as much as what it
//     removes, and there is nothing to configure.
//   - The map of a shard is replaced when it has become four times smaller: Go's maps do not
//     shrink.
//
// # Invariants
//
//  1. Complete is called exactly once for every request that Park has accepted, and never for one
//     that it has refused.
//  2. Satisfied is the outcome exactly if the last TryComplete has reported true, and every
//     TryComplete before it false.
//  3. A request never expires before its timeout has passed, and at most one tick after it, if the
//     goroutine of the clock is scheduled and no request blocks it.
//  4. TryComplete and Complete of one request never run at the same time, and what one writes the
//     next can read.
//  5. A request that is parked when a Check of one of its keys begins has been tried since when
//     Check returns, or is being tried and will be tried again, by the goroutine that does so or,
//     after 16 rounds of it, by the clock a tick later.
//  6. Every list holds a watcher; every watcher in a list counts as one entry of its shard. A
//     Check leaves no watcher in the list of its key whose request was completed when Check met
//     it, or was completed by Check. In lists that are not checked, watchers without a request are
//     at most half of a shard's, or 31, after the garbage collector has run and its cleanups have.
//  7. Nothing in the purgatory keeps a completed request alive, except, for a tick, a postponed
//     try of it; and nothing at all keeps its Request.
//  8. No lock is held while a method of a Request runs, and none is taken while another is held:
//     there is no lock order.
//
// # Concurrency and time
//
// All methods may be called from everywhere, also from TryComplete and Complete. The caller of
// Check runs the TryComplete and Complete of the requests that it wakes, in no particular order. A
// Park or Check inside of one of them runs nested: a chain of requests that check each other's
// keys is as deep as it is long.
//
// The purgatory itself reads no clock and starts no goroutine. The runner of its wheel
// ([github.com/txmgr/txmgr/timeout/wheel/runner]) has one of each, which also completes expired
// requests. Sweeps run on goroutines of the runtime.
//
// # What it does not do
//
// It does not know the meaning of a key, nor whether the right keys are checked. It does not order
// the requests that wait for one key: when only one of them can be satisfied, it is any of them.
// It does not protect itself from a TryComplete or a Complete that waits: a deadline that comes
// meanwhile is kept when it returns.
package purgatory
