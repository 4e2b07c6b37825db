// Package planted checks the checkers: it breaks the product on purpose, one line at a
// time, and looks whether the test that ought to notice does.
//
// # What
//
// A table of bugs. Each is a piece of text in one file and what stands there instead,
// the promise that it breaks, and the name of the test that has to fail. The product
// knows nothing of them: go build -overlay shows the compiler a changed copy.
//
// # Invariants
//
//  1. A bug is caught when the named test fails with the message that the table names. A
//     changed file that does not compile, a test that is not there, one that panics, does
//     not end in time or fails with another message, is no catch, and fails the run.
//  2. Without a bug every named test passes, in the same run, and no test of that package
//     says the message.
//  3. The text of every bug stands in its file exactly once, the package compiles with the
//     bug in it, and the test exists. Every run of the tests checks this in seconds, so that
//     the table does not go stale; make planted, which takes minutes, tries the bugs.
//
// # What it does not do
//
// It does not say how much of the product is tested: it says that the tests which
// guard a promise can fail. Bugs that lie round the coordinator, in disks and
// participants, are planted by internal/sim.
package planted
