// Package runner drives a [wheel.Wheel] in real time: one goroutine sleeps until the next task is
// due and passes it to a function. Call [Start], [Runner.Add] with a task and the time after which
// it is due, [Runner.Cancel] to take it back, and [Runner.Stop] to end the goroutine:
//
//	r, err := runner.Start(runner.Config[string]{
//		Handle: func(t *wheel.Task[string]) { expired(t.Value) },
//	})
//	...
//	defer r.Stop()
//	r.Add(&wheel.Task[string]{Value: "tx_1"}, time.Minute)
//
// # Why
//
// The wheel has no clock and no goroutine, so that it can be tested and compared without waiting.
// Real time needs both, once: the runner converts time to ticks, and ticks to wakeups.
//
// # How
//
//   - Ticks count from Start, on the monotonic clock. The time of a task is rounded up to a tick,
//     so a task is passed on at its time or up to a tick later, and never before, whatever the
//     wall clock does.
//   - The goroutine sleeps until [wheel.Wheel.Next]. It is woken when a task is added that is due
//     before that, so a wheel with few tasks does not tick, and an empty one sleeps.
//   - Tasks are taken one by one, under the lock, and passed on without it. So a task can be
//     cancelled until the moment at which it is taken, and the function never delays a caller.
//
// # Invariants
//
//  1. A task is passed on once, or Cancel has reported true, or it is left when the runner stops;
//     never two of these.
//  2. It is passed on no earlier than its time after Add was called.
//  3. Tasks are passed on one after the other, in the order of their ticks, those of one tick in
//     the order in which they were added.
//  4. Add, Cancel, Len, and Stop do not wait for the function.
//  5. After Stop no task is taken. When Done is closed, the function has returned for the last
//     time.
//  6. Without cancelled tasks, and with no more than 256 in a bucket, the goroutine wakes up as
//     often as there are ticks at which tasks are due, and once more whenever a task is added that
//     is due before all others. See the package doc of [github.com/txmgr/txmgr/timeout/wheel] for
//     the rest.
//
// # The function
//
// It runs on the goroutine of the runner. It may use the runner like any caller, and add the task
// again. While it blocks, other tasks are late, and Add and Cancel are not. Long work belongs on a
// goroutine of its own.
//
// If it panics, the program ends, as after a panic on any goroutine, unless Config.Panicked is
// set: then that is called, and the next task follows. If it ends its goroutine
// ([runtime.Goexit]), the runner has stopped.
//
// # What it does not do
//
// It does not pass tasks on concurrently. When it stops, it neither waits nor passes anything on:
// call [Runner.Drain] for the tasks that are left.
package runner
