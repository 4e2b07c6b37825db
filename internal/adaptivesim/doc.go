// Package adaptivesim evaluates the optimizers of package adaptive: it simulates fifteen minutes
// of a pool in a fraction of a second, and compares the result with what the best fixed limit
// would have given. Call [Run] for one run and [Compare] for a comparison.
//
// # What
//
// [Run] is one run: a [Scenario], an optimizer, a first limit and a seed. [Compare] runs
// many optimizers through many scenarios, each beside an [Oracle], which has tried all
// fixed limits with the same noise. A [Score] is what an optimizer lacks compared with the
// oracle, and [Comparison.Table] shows all of them. The gates are tests: every change of an
// optimizer has to keep them, with one seed in the ordinary run of the tests, with three
// in make sim-adaptive.
//
// # Why
//
// Whether a change makes an optimizer better cannot be seen on one machine and one load,
// nor measured twice with the same noise. Here it can.
//
// # How
//
//   - The load: users that wait for an answer, think and ask again (a closed loop), tasks
//     that arrive regardless of completions (an open loop), bursts, a backlog.
//   - The pool: a queue, first in, first out, and a limit. A task that runs is never ended
//     by a smaller limit.
//   - Processors: four, shared evenly, with a loss for each task beyond their number.
//   - The backend: so many slots, shared evenly; beyond them each task slows down all.
//   - The log: group commit. One flush at a time; tasks that arrive meanwhile share the next.
//   - Noise: the speed of processors and backend drifts slowly by 6 %; the process
//     is paused for some 100 ms every 12 s, and for 1 to 2.5 s every 150 s.
//
// # Invariants
//
//  1. The same arguments give the same result, on every machine of one architecture: own
//     generator, no clock, no goroutine inside a run.
//  2. Noise is the same for all limits and optimizers: it has a random stream of its own.
//     So have the tasks' contents; tasks start in the order in which they were submitted.
//  3. As many tasks run as the limit allows, or all there are; more only after the limit
//     has become smaller, and then none starts.
//  4. No task is lost: what was submitted has ended, runs or waits.
//  5. A window shows what the pool of package adaptive would show.
//
// # Concurrency and time
//
// A run has one owner, and its time is virtual: seconds since its beginning. Runs share
// nothing; [Compare] has one for each processor at a time.
//
// # How to read a failure
//
// A gate that fails prints scenario, seed and scores, and what the optimizer decided, when
// and why. The same seed gives the same run again. A gate about single scenarios uses
// the mean over the seeds; with one seed it is stricter, because randomness is not averaged out.
//
// # What it does not do
//
// There is no gate for an open loop of heavy-tailed work under partial load (Prime10m/steady):
// by capacity four workers are best there, while latency is best with many, among which the short
// tasks overtake the long ones. No optimizer that looks at capacity finds that; the tables show it.
//
// It is a model, not a machine. Its results for an optimizer hold for work that is like the
// work in it. The optimizer is asked in time even while the process is paused, and asking
// costs nothing. Other architectures may round differently, and then a run diverges.
package adaptivesim
