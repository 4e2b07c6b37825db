// Package adaptivestudy varies the parameters of the optimizers that package adaptive
// has from the dissertation, one at a time, and reports the effect: the third question
// of the dissertation. Call [Find] for a study and [Simulate] or [Measure] to carry it out.
//
// # What
//
//   - [Studies] are the period, the lock, the step and the least acceptable change, each
//     with some values, among them the published one.
//   - [Simulate] has package adaptivesim run the experiment at the dissertation's pace: 25
//     minutes of simulated time, beside the best fixed sizes. [Measure] has package
//     adaptivebench run it in real time, shortened by the configured factor.
//   - A [Report] has a [Row] for each optimizer and value, and the results from which the
//     pictures are drawn.
//
// # What a value means
//
// The period study leaves the lock at six windows, as the dissertation did: with a period of
// 5 s it lasts 30 s. The lock study leaves the period at 10 s, so the two can be told
// apart. A lock of 30 s is three windows there; an odd number makes the published form
// undo steps that it has not taken (package adaptive, row 13).
//
// Knee takes part where it has the parameter: a window of it is a twentieth of the
// period, and the lock is how long it leaves a size alone at first. It is not shortened
// when an experiment is, so a lock means something to it in simulation, or at the
// source's pace.
//
// # Invariants
//
//  1. One parameter differs between the rows of one optimizer, and nothing else: in
//     simulation all have the same load and the same noise.
//  2. A simulated report is the same each time, on every machine of one architecture, but
//     for its conditions.
//  3. A row is the mean over all seeds; the pictures are of the first.
//
// # What it does not do
//
// It does not choose a value: the optimizers keep the published ones.
package adaptivestudy
