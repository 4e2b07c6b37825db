// Command mutants changes one token of a package at a time and runs the package's tests:
// a change that no test notices (a survivor) shows a statement that nothing checks.
//
// The sources are never modified: go test -overlay gives the compiler a changed copy. Each mutant
// is compiled, and run in a process group of its own with a time limit, a memory limit and a
// temporary directory that is removed afterwards. Seed and source determine the order, so that a
// run can be repeated or continued with -skip.
//
//	bin/mutants -n 30 -seed 1 -time 10m ./txn/machine ./recovery
//	bin/mutants -at share.go:31,share.go:33 ./recovery    # every mutant of two lines
//
// The mutations are: arithmetic, logical and comparison operators, the boundary of a
// comparison, integer constants off by one, boolean constants, negated conditions, a
// dropped negation, break for continue, and a removed statement. Calls of loggers, panics
// and generated files are left alone.
//
// A mutant is killed when a test fails, panics or does not end in time; one that does not compile
// does not count. A survivor is not always a gap in the tests: some mutants are equivalent to the
// original.
package main
