// Package timeoutbench measures the timeout structures, and whatever else keeps deadlines, on the same workloads.
//
// # What
//
// A [Contender] keeps entries that end at some tick. [Measure] lets it do everything that such a structure does, at one
// number of pending entries and with one [Load] of timeouts: take entries in, cancel them at random, both from several
// goroutines, let all of them end, pass ticks at which nothing ends; and it looks at the memory that they take and at
// what they cost the garbage collector. [Metrics] says what comes out. [Run] measures many contenders in turns, and
// [Report.Picture] draws the result.
//
// Two designs that the sources of the structures replaced are contenders as well, written as those describe them: the
// request purgatory before the timing wheel, and the copy-and-scan that the hashbelt is compared with.
//
// [Redesign] and [Sleep] are other measurements: the experiments that the survival index and the pointer heap were first
// presented with.
//
// # How
//
//   - A contender works on a batch of entries at a call. The loop over the batch is its own code, with its own type of
//     handles, so that nobody pays for an interface, a closure or a boxed handle that a user would not have.
//   - What is left of the harness, the loop, is a contender too, "null". It is measured and shown, not subtracted.
//   - Times are of the processor: of the calling thread, or of the whole process where a contender has goroutines of its own
//     or several call it. What other programs do meanwhile counts only by the share of the caches that they take. Outside
//     Linux there is no such clock here, and the times are those of the wall.
//   - Before anything is timed, as many entries as are pending are replaced at random, so that neighbours lie scattered in
//     memory as after hours of work.
//   - No collection runs while something is timed; collections have figures of their own.
//   - In [Run], every contender is measured in a process of its own, so that none inherits another's heap, and in a new random
//     order each round, so that a change of the machine's mood meets all of them.
//
// # Invariants
//
//  1. Every entry that a contender was given is cancelled once or ends once; a contender that loses one fails.
//  2. All contenders get the same entries in the same order, from the same seed.
//  3. A figure is the median of its rounds, with the least and the most.
//
// # What it does not do
//
// It does not judge: a goal belongs to whoever has set it. It does not test that an entry ends at its tick and not
// another: the conformance suite, package timeouttest, does. What is measured here is told the time by its caller, but
// for the purgatory, which has a clock.
package timeoutbench
