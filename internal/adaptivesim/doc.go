// Package adaptivesim judges the optimizers of package adaptive: it lets a pool that is
// not there work through fifteen minutes in a fraction of a second, and compares what
// came of it with what the best fixed limit would have given.
//
// # What
//
// [Run] is one run: a [Scenario], an optimizer, a first limit and a seed. [Compare] runs
// many optimizers through many scenarios, each beside an [Oracle], which has tried all
// fixed limits with the same noise. A [Score] says what an optimizer lacks to the oracle,
// and [Comparison.Table] shows all of them. The gates are tests: what every change of an
// optimizer has to keep, with one seed in the ordinary run of the tests, with three
// in make sim-adaptive.
//
// # Why
//
// Whether a change makes an optimizer better cannot be seen on one machine and one load,
// nor measured twice with the same noise. Here it can.
//
// # How
//
//   - The load: users who wait for an answer, think and ask again (a closed loop), tasks
//     that come whatever becomes of them (an open loop), bursts, a backlog.
//   - The pool: a queue, first in, first out, and a limit. A task that runs is never ended
//     by a smaller limit.
//   - Processors: four, shared evenly, with a loss for each task beyond their number.
//   - The backend: so many slots, shared evenly; beyond them each task slows down all.
//   - The log: group commit. One flush at a time; who comes meanwhile shares the next.
//   - Noise: the speed of processors and backend drifts slowly by 6 %; the process
//     stands still for some 100 ms every 12 s, and for 1 to 2.5 s every 150 s.
//
// # Invariants
//
//  1. The same arguments give the same result, on every machine of one architecture: own
//     generator, no clock, no goroutine inside a run.
//  2. Noise is the same for all limits and optimizers: it has a stream of chance of its own.
//     So has what tasks are made of; they start in the order in which they were submitted.
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
// and why. The same seed gives the same story again. A gate about single scenarios looks at
// the mean over the seeds; with one seed it is stricter, because chance is not averaged out.
//
// # What it does not do
//
// There is no gate for an open loop of heavy-tailed work under partial load (Prime10m/steady):
// capacity says four workers there, while latency is best with many, among which the short
// tasks pass the long ones. No optimizer that looks at capacity finds that; the tables show it.
//
// It is a model, not a machine. What it says of an optimizer holds for work that is like the
// work in it. The optimizer is asked in time even while the process stands still, and asking
// costs nothing. Other architectures may round differently, and then a run takes another way.
package adaptivesim
