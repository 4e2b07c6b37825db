// Package archtest contains the rules of the code base as tests: what CONTRIBUTING.md and
// docs/architecture.md say about the structure of the code.
//
// Each rule is a subtest of [TestRules] with the rule's name:
//
//  1. imports: a package imports only the packages that the import table allows; each row has its reason.
//  2. libraries: raft, bbolt, cobra and the database drivers are imported only by the packages
//     whose purpose they are; test libraries only by tests.
//  3. pure: the core reads no clock, has no randomness, starts no goroutine and does no I/O; nor
//     does the code that decides the size of a pool.
//  4. order: nothing in the core depends on the order of a map.
//  5. waiting: no test sleeps, none is skipped.
//  6. packages: every package has a doc comment, and a noun for a name.
//  7. exports: every exported name is documented.
//  8. init: nothing runs before main but the initialisation of variables.
//  9. size: no file is above 800 lines.
//  10. words: no unfinished work, no path of one machine, no host of a network.
//  11. module: go.mod can be installed from elsewhere.
//  12. view: a function that is passed to FSM.View only reads the machine.
//  13. sizes: packages, structs, method sets and interfaces are within limits.
//  14. vocabulary: no metaphors in names, no prose that hides who acts, no public type whose words
//     docs/glossary.md does not have.
//  15. commands: no text outside the command line is a command line of txmgr.
//
// Every rule is tested itself: testdata contains, for each, source that breaks it and the expected
// findings; see internal/ruletest.
//
// An exception to a rule for one line goes into the table or into the directive that the rule
// names, always with a reason; a change of a rule needs a page in docs/decisions.
//
// # What it does not do
//
// It does not check documentation: internal/doctest does.
package archtest
