// Package timeouttest is the conformance suite for the contract of package timeout. Call [Run]
// with a [Subject] in a test of the structure.
//
// [Run] drives a structure and a [List] with the same random histories and compares everything
// observable after every step, and it makes calls that a user should not make: an end that has
// passed, a cancel of an entry that is gone, going back, a year at once. [Same] drives several
// structures with one history and compares them with each other.
//
// # What is compared
//
// The entries that are due at each tick, that they come in the order of their ends, how many are
// pending, that nothing is due before the tick that Next returns, and that an entry that was taken
// or cancelled does not come again. The order of entries with the same end is specified by each
// package: the suite requires only that it is the same in every process.
//
// # What it does not do
//
// It knows none of the structures, and does not test their speed.
package timeouttest
