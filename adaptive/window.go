package adaptive

import "time"

// Window is what an [Optimizer] sees of a pool: all that happened between two
// moments. Its histograms belong to its maker, and are valid until Observe
// returns; a nil one is empty. The zero value is a window in which nothing
// happened.
type Window struct {
	// Start and End are readings of one monotonic clock.
	Start, End time.Duration
	// Limit is how many tasks could run at once, from Start to End.
	Limit int

	// Arrived counts the tasks that were accepted, Completed those that ended.
	Arrived, Completed uint64

	// BusyTime is the sum of the times for which workers had a task, QueueTime the
	// sum of the times for which tasks waited for a worker: the integrals of the two
	// numbers over the window.
	BusyTime, QueueTime time.Duration
	// BusyMax and QueueMax are the largest values of the two numbers, QueueLen is
	// how many tasks waited at End.
	BusyMax, QueueMax, QueueLen int

	// BoundTime is for how long the limit was binding: tasks waited that another
	// worker could have run. BoundCompleted counts the tasks that ended meanwhile.
	// Only such completions depend on the limit and not on the load.
	BoundTime      time.Duration
	BoundCompleted uint64

	// Service has the time from the start of each completed task to its end, Sojourn
	// the time from its submission, or, of a task of a [TaskSource], from when it was ready.
	Service, Sojourn *Histogram

	// CPU is the part of its processors that the process used, from 0 to 1; NaN, or
	// any value outside, means that it is not known.
	CPU float64
}

// Length is the time from Start to End; not positive if the clock was set back,
// and then nothing else in the window is meaningful.
func (w *Window) Length() time.Duration { return w.End - w.Start }

// Busy is the mean number of workers with a task, 0 without a length.
func (w *Window) Busy() float64 { return ratio(float64(w.BusyTime), float64(w.Length())) }

// Waiting is the mean number of tasks that waited for a worker, 0 without a length.
func (w *Window) Waiting() float64 { return ratio(float64(w.QueueTime), float64(w.Length())) }

// Rate is the number of tasks completed per second, 0 without a length.
func (w *Window) Rate() float64 { return ratio(float64(w.Completed), w.Length().Seconds()) }

// ratio is a/b, or 0 where that is not meaningful.
func ratio(a, b float64) float64 {
	if !(b > 0) || !(a > 0) {
		return 0
	}
	return a / b
}

// Decision is what an [Optimizer] concludes from a window.
type Decision struct {
	// Limit is how many tasks may run at once from now on.
	Limit int
	// Why is the reason in one sentence; empty if there was nothing to decide.
	Why string
}

// Optimizer decides how large a pool should be. It has no clock, no goroutine and
// no randomness: the same windows give the same decisions, so a simulation is an
// ordinary test, and recorded windows replay what happened elsewhere.
//
// An optimizer has one owner; it is not safe for concurrent use. It begins with
// the limit of the first window, and continues from a limit that it did not ask for
// as from its own.
type Optimizer interface {
	// Period is how long a window should be; positive, and always the same.
	Period() time.Duration
	// Observe takes the window that has just ended. Any window is allowed: one without
	// evidence leaves the limit as it is. The window is neither changed nor kept.
	Observe(*Window) Decision
}
