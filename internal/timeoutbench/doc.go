// Package timeoutbench measures the timeout structures, and other designs that keep deadlines, on
// the same workloads. Call [Run] with a [Config], or [Measure] for one task in this process.
//
// # What
//
// A [Contender] keeps entries that end at some tick. [Measure] exercises all operations of such a
// structure, at one number of pending entries and with one [Load] of timeouts: adding entries,
// cancelling them at random, both from several goroutines, letting all of them end, passing ticks
// at which nothing ends; and it measures the memory that they take and their cost for the garbage
// collector. [Metrics] lists the results. [Run] measures many contenders in turns, and
// [Report.Picture] draws the result.
//
// Two designs that the sources of the structures replaced are contenders as well, written as those
// describe them: the request purgatory before the timing wheel, and the copy-and-scan that the
// hashbelt is compared with.
//
// [Redesign] and [Sleep] are other measurements: the experiments that the survival index and the
// pointer heap were first presented with.
//
// # How
//
//   - A contender works on a batch of entries at a call. The loop over the batch is its own code,
//     with its own type of handles, so that no contender pays for an interface, a closure or a
//     boxed handle that a user would not have.
//   - The rest of the harness, the loop, is a contender too, "null". It is measured and shown, not
//     subtracted.
//   - Times are of the processor: of the calling thread, or of the whole process where a contender
//     has goroutines of its own or several call it. Other programs count only by the share of the
//     caches that they take. Outside Linux there is no such clock here, and the times are
//     wall-clock times. Linux there is no such clock here, and the times are those of the wall.
//   - Before anything is timed, as many entries as are pending are replaced at random, so that
//     neighbours lie scattered in memory as after hours of work.
//   - No collection runs while something is timed; collections have figures of their own.
//   - In [Run], every contender is measured in a process of its own, so that none inherits
//     another's heap, and in a new random order each round, so that variance of the machine affects
//     all of them.
//
// # Invariants
//
//  1. Every entry that a contender was given is cancelled once or ends once; a contender that loses
//     one fails.
//  2. All contenders get the same entries in the same order, from the same seed.
//  3. A figure is the median of its rounds, with the least and the most.
//
// # What it does not do
//
// It does not evaluate: goals are set elsewhere. It does not test that an entry ends at its tick
// and not at another: the conformance suite, package timeouttest, does. The contenders receive the
// time from their caller, except the purgatory, which has a clock.
package timeoutbench
