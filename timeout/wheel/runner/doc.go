// Package runner turns a [wheel.Wheel]: one goroutine sleeps until the next task is due and hands it to a function.
//
// # What
//
// [Start] starts a [Runner], [Runner.Add] gives it a task and the time after which the task is due, [Runner.Cancel] takes it
// back, [Runner.Stop] ends the goroutine.
//
// # Why
//
// The wheel has no clock and no goroutine, so that it can be tested and compared without waiting. Whoever has real time to
// deal with needs both, once: time becomes ticks here, and a tick a moment at which somebody wakes up.
//
// # How
//
//   - Ticks count from Start, on the monotonic clock. The time of a task is rounded up to a tick, so a task is handed over
//     at its time or up to a tick later, and never before, however the clock on the wall is set.
//   - The goroutine sleeps until [wheel.Wheel.Next]. It is woken when a task is added that is due before that, so a wheel on
//     which little waits does not tick, and one on which nothing waits sleeps.
//   - Tasks are taken one by one, under the lock, and handed over without it. So a task can be cancelled until the moment
//     at which it is taken, and whatever the function does, nobody waits for it.
//
// # Invariants
//
//  1. A task is handed over once, or Cancel has reported true, or it is left when the runner stops; never two of these.
//  2. It is handed over no earlier than its time after Add was called.
//  3. Tasks are handed over one after the other, in the order of their ticks, those of one tick in the order in which they
//     were added.
//  4. Add, Cancel, Len, and Stop do not wait for the function.
//  5. After Stop no task is taken. When Done is closed, the function has returned for the last time.
//  6. Without cancelled tasks, and with no more than 256 in a bucket, the goroutine wakes up as often as there are ticks at
//     which tasks are due, and once more whenever a task is added that is due before all others. See the package doc of
//     [github.com/txmgr/txmgr/timeout/wheel] for the rest.
//
// # The function
//
// It runs on the goroutine of the runner. It may use the runner as anybody may, and add the task again. While it blocks,
// other tasks are late, and Add and Cancel are not. What takes long belongs on a goroutine of its own.
//
// If it panics, the program ends, as after a panic on any goroutine, unless Config.Panicked is set: then that is called, and
// the next task follows. If it ends its goroutine ([runtime.Goexit]), the runner has stopped.
//
// # What it does not do
//
// It does not hand over tasks side by side. It does not wait, and does not hand anything over, when it stops: whoever
// wants what is left takes it with [Runner.Drain].
package runner
