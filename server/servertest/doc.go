// Package servertest holds a coordinator in memory, [Fake], for the tests of
// what stands before a coordinator: packages server and client.
//
// It keeps the rules that callers can see (states, votes, repeated calls, what a
// person may say about a hazard), under one lock, and nothing else: no log, no
// timeouts, no phase two, and a clock that stands still. [Fake.Before] lets a test
// fail, hold or break any call, and [Fake.LoseBranch] a participant lose a branch.
package servertest
