// Package timeouttest holds a structure to the contract of package timeout.
//
// [Run] is the suite. It drives a structure and a [List] with the same random histories and compares all that can be seen
// after every step, and it tries what a user should not do: an end that has passed, a cancel of what is gone, going back,
// a year at once. [Same] drives several structures with one history and compares them with each other.
//
// # What is compared
//
// Which entries are due at which tick, that they come in the order of their ends, how many are pending, that nothing is due
// before the tick that Next answers, and that what was taken or cancelled does not come again. The order of entries
// with the same end is for each package to say: the suite asks only that it is the same in every process.
//
// # What it does not do
//
// It knows none of the structures, and does not test their speed.
package timeouttest
