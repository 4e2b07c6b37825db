// Package servertest provides [Fake], a coordinator in memory, for the tests of packages
// server and client. Call [New].
//
// It keeps the rules that callers can see (states, votes, repeated calls, what an operator
// may state about a heuristic outcome) under one lock, and nothing else: no log, no timeouts,
// no phase two, and a clock that stands still. [Fake.Before] lets a test fail, delay or break
// any call; [Fake.LoseBranch] makes a participant lose a branch.
package servertest
