// Package costa provides the three optimizers of D. J. N. Costa, "Adaptive Concurrency Control Based
// On Workload Characteristics", a dissertation of January 2019, for pools of package adaptive:
//
//   - [Throughput] grows a pool as long as a step gains 10 % more completions per second.
//   - [MeanLatency] tries a step up and a step down in turns, and keeps what makes the mean latency
//     5 % smaller.
//   - [P99Latency] does the same with the 99th percentile.
//
// They are for comparison with [adaptive.Knee], and for applications that need one of these figures
// to be good, and nothing else. Give one to a pool:
//
//	o, err := costa.NewThroughput(costa.Throughput{})
//	if err != nil {
//		return err
//	}
//	pool, err := adaptive.New(adaptive.Config{Optimizer: o})
//
// They keep invariants 7 and 8 of package adaptive. An optimizer has one owner, and knows no time but
// that of its windows.
//
// # The dissertation
//
// The dissertation gives its algorithms twice, as pseudocode (chapter 4) and as a listing in Java
// (appendix A.5), which differ from each other and in places from what is meant. Strict implements
// the listing; the default implements what is meant. These are the differences; the tests cite
// them by number.
//
//	Row 1   Pseudocode: the flags that allow a step are never set at first. They are true.
//	Row 2   Throughput: the lookup is guarded by a phase that it never has. There is no guard.
//	Row 3   Lookup: the loop reads a row behind the last, and the result is undefined if no row
//	        fits. It ends before the last row, and then leaves the size alone.
//	Row 4   Table: sorted by size, or in order of first use? Sorted; Strict in order of use.
//	Row 5   Mean of a row: precedence, and a count that is never raised. (value×count + x) /
//	        (count+1).
//	Row 6   Which size gets the credit? The one in force during the window.
//	Row 7   Lookup may also find a larger size. It may.
//	Row 8   Lookup and the step of the phase happen in one iteration. Strict does both; else
//	        the lookup ends the probe, and nothing else happens.
//	Row 9   A step below the minimum is not taken; it is not cut short.
//	Row 10  A step back is taken even if there was none forth. Strict wanders between 1 and 21;
//	        else only a probe that was made is reverted.
//	Row 11  Are locks counted before the phase changes, or after? It makes no difference.
//	Row 12  A lock of "1 minute", of "8 sets", of 6. Six iterations are blocked, eight lie
//	        between two probes.
//	Row 13  A lock of odd length makes Strict undo what it has not done, down to a size of 1.
//	        Else any length is safe.
//	Row 14  When nothing completes, the size goes to 1: only in the listing. Strict does that,
//	        and compares with 0 afterwards; else such a window is no evidence.
//	        Config.KeepIdle switches it off.
//	Row 15  A countdown that should clear the table is never set. It is never cleared.
//	Row 16  The rate of "10 seconds" is that of up to the last 5. It is completions by the
//	        length of the window.
//	Row 17  Latency is measured from the beginning of the connection. It is from submission to
//	        end; of a task from an [adaptive.TaskSource], from when it was ready.
//	Row 18  Thresholds: a fall of more than 10 %; a gain of less than 10 %, or 5 %, is none.
//	Row 19  The first step is taken in the first window with load, which may be half of one.
//	        Strict does; else that window is what the next is compared with.
//	Row 20  The queue has no end, and the count of running tasks is a race. The queue is
//	        bounded, counts are exact.
//	Row 21  Names and captions of figures are mixed up. Not tested: there is no behaviour in
//	        it; what is reproduced here is named by what it does.
//
// MeanLatency and P99Latency go beyond the dissertation in one place, unless they are Strict. The
// dissertation's users waited for answers, so that no task had waited for longer than a window.
// When work arrives all at once, as from a log after a failure, each window completes older tasks
// than the last, at any limit: evaluated by ages, the limit would never change. So when tasks have
// waited, on average, for longer than the window is, both windows are evaluated by the latency of
// a task at the end of the present queue: the service time, and the number of waiting tasks
// divided by the rate of the window. Where a constant number of users wait for answers that is the
// same figure, by Little's law.
package costa
