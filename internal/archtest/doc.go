// Package archtest holds the house rules as tests: what CONTRIBUTING.md and
// docs/architecture.md say about the shape of the code, in a form that can fail.
//
// The rules, each a test of its own with the rule's name:
//
//  1. arrows: a package imports only packages below it; the table says which
//     and why.
//  2. libraries: raft, bbolt, cobra and the database drivers appear only in the
//     packages whose purpose they are; test libraries only in tests.
//  3. pure: the core reads no clock, has no randomness, starts no goroutine and
//     does no I/O; nor does what decides about the size of a pool.
//  4. order: nothing in the core depends on the order of a map.
//  5. waiting: no test sleeps, none is skipped.
//  6. packages: every package has a doc comment, and a noun for a name.
//  7. exports: every exported name is documented.
//  8. init: nothing runs before main but the initialisation of variables.
//  9. size: no file is above 800 lines.
//  10. words: no unfinished work, no path of one machine, no host of a network.
//  11. module: go.mod can be installed from elsewhere.
//
// Every rule is tried on itself: testdata holds, for each, source in which it is
// broken, beside the findings that must come out; see internal/ruletest.
//
// A rule that is wrong for one line is answered in the table or with the
// directive that the rule names, always with a reason; a rule that is wrong
// altogether, with a page in docs/decisions.
//
// # What it does not do
//
// It does not judge documentation: internal/doctest does.
package archtest
