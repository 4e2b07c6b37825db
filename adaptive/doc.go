// Package adaptive provides a worker pool that adapts its own size. Call [New], then [Pool.Do],
// [Pool.Submit] or [Pool.TrySubmit] for each task, and [Pool.Close] at the end:
//
//	pool, err := adaptive.New(adaptive.Config{})
//	if err != nil {
//		return err
//	}
//	defer pool.Close(context.Background())
//	err = pool.Do(ctx, func() error { return callDatabase() })
//
// A [Pool] has a limit of tasks that run at once, and a bounded queue. An [Optimizer] observes a
// [Window] of what happened in the pool, and decides the next limit: [Knee] looks for the smallest
// limit whose capacity is within 2 % of the best, and is the one to use. [Fixed] does not optimize.
// Package costa has three more, for comparison.
//
// # Why
//
// The right size depends on what the tasks do and on what they call: four for CPU-bound work on
// four cores, two hundred for calls that wait. It changes when a called service becomes slow. With
// too few workers the processor idles while tasks queue; with too many they contend: for
// processors, for locks, for a database that does worse with each further connection.
//
// # How: the pool
//
// The limit is an integer under the mutex of the queue. A worker is a goroutine that exists only
// while it has a task: one is started when a task arrives and fewer run than the limit allows, and
// ends when no task waits or more run than the limit allows. So a limit that is too large costs
// nothing while there is no load, and a smaller one interrupts no task. A pool can also take its
// work from a [TaskSource], such as a durable log: it asks for a task when a worker is free, and
// receives the time since when the task has been ready, so that latencies include waiting wherever
// work waits.
//
// Everything is counted under that mutex, which a worker holds at the end of each task anyway, so
// that all figures of a window agree. The controller takes the histograms of the window, and
// leaves empty ones.
//
// # How: Knee
//
// Completions per second are evidence about a limit only while it binds, which is while tasks
// wait, or while all workers are busy. Then they do not depend on how much load there is, and what
// was learnt outlives a quiet night. A search begins with twice the limit, or four more, and
// again, as long as each step gains what its workers cost ([Knee].WorkerCost); then it tries
// half as many, and the middle of what is left open, until 2 % would be lost. Returns diminish: if
// half as many do half as much, nothing in between needs to be tried, nor if twice as many do no more.
//
// A trial takes windows until it is clear, by the standard error of the counts, which of two
// limits is better, and ten seconds of evidence at most, or six times as long as a task. A limit
// that is worse by a quarter is recognized in two windows, and a larger limit is tried before the
// first one is proven: bursts are short. A larger limit for which there are not enough tasks is as
// useless as one that is no better, until there are more.
//
// In the end the limit is left alone. A neighbouring one is tried after a minute of load, then
// after two, and so on up to sixteen. When the rate or the service time changes by a quarter, in
// the median of five seconds, the search begins anew. Windows in which nearly nothing completes
// are a pause of the process, and no evidence, unless they go on for ten seconds, or three during
// a search; nor is a window that is four times too long. If nothing completes at all, nothing is
// tried. While the limit is not needed it follows a steady demand down, and returns in the first
// window in which tasks wait again.
//
// # Invariants
//
//  1. No task starts while the number of running tasks has reached the limit. A running task is
//     never interrupted.
//  2. As long as the pool is open, no task waits in the queue while fewer run than the limit
//     allows.
//  3. A task that was accepted is run once, unless it was withdrawn by the context of Do; one that
//     was refused is never run. After Close has returned nil, no goroutine of the pool is left.
//  4. Tasks of the queue start in the order in which they were accepted, and submitters that wait
//     for a place are accepted in the order in which they came.
//  5. A task that panics, or ends its goroutine, costs neither the worker's place nor the process.
//  6. Every completed task is counted and recorded in exactly one window, but those that ended
//     their goroutine are only counted. A task that has timed out is not completed.
//  7. The limit is at least 1 and at most [MaxLimit], and that of an optimizer between its Min and
//     Max, for any windows.
//  8. The same windows lead to the same decisions. An optimizer reads no clock, starts no
//     goroutine and has no randomness.
//  9. A window in which the limit was changed manually is not shown to the optimizer. In all others
//     Limit was in force from Start to End.
//  10. A [TaskSource] is asked by no more workers than the number of ready tasks it announced, and
//     one more when the limit has changed; when it has announced a task it is asked, or all
//     workers are busy.
//
// # Concurrency and time
//
// All methods of a [Pool] can be called by many goroutines. No lock is held while a task, a
// [TaskSource], or the optimizer runs. Optimizers, histograms and [WeightedRoundRobin] have one
// owner. The pool uses the monotonic clock; an optimizer knows no time but that of its windows.
//
// # What it does not do
//
// It does not interrupt tasks: give them a context. It does not retry, and has no priorities: a
// [TaskSource] chooses. It does not distinguish tasks: work that needs different resources belongs
// in different pools, each with an optimizer of its own. A pool takes 115 KB, nearly all of it for
// histograms, which are those of HdrHistogram; [Histogram.HDR] returns them for its writers.
//
// A task that waits for others in its own pool, by Do, or by Submit with a full queue, keeps its
// worker meanwhile. When all workers wait in this way, there is no progress until a context ends
// or the limit grows by [Pool.Resize]: [Knee] tries nothing while nothing completes.
//
// # Known limits of Knee
//
//   - CPU-bound work whose tasks differ by a factor of a hundred, at partial load from an open
//     loop: capacity says as many workers as cores, but short tasks would overtake long ones in a
//     larger pool. Mean and 99th percentile are several times the best then. The cure is a pool
//     for each kind, not a size.
//   - Very slow work, twenty tasks per second of two seconds each: there is little to learn from,
//     so it takes two or three minutes, and a tenth of the throughput.
//   - An optimum that is a single size: ten percent more or less cannot be distinguished while
//     machines themselves become six percent faster and slower.
//   - Capacity that grows slowly over a long range, such as that of a database that writes the log
//     of many at once: where each doubling gains less than 11 %, the search stops, unless a lower
//     [Knee].WorkerCost says that further workers are cheap.
//   - When more becomes possible than before, and nothing else changes, the next probe finds it:
//     after a long rest, in up to sixteen minutes of load; see [Knee].ProbeAfter.
//   - The first burst after the start meets a limit that has learnt nothing. A start far above the
//     right size, under load that hardly ever waits, may take a pause of the process for the
//     capacity of the limit.
//   - Bursts of less than ten tasks, more than a minute apart, over a load that fills the limit:
//     they are no evidence.
//   - Tasks of many minutes: a decision takes several of them.
//   - Loads that change every minute: each is learnt anew, for some 10 % of the throughput.
//   - The constants were chosen in simulation, on the same kinds of work that they are evaluated
//     by.
package adaptive
