// Package demo is the guided tour: six scenes in which two databases, a web
// service, a coordinator and things that go wrong show what the product promises.
//
// The coordinator is a process of its own, or three of them that stand in for one
// another, so that it is really killed when the tour says so. The databases are real ones too: private PostgreSQL and MariaDB
// servers, embedded ledgers, or databases of the user. The service is called over
// HTTP, and keeps its barrier in a ledger.
//
// # Invariants
//
//  1. What the tour says is looked up, not assumed: after every scene all
//     balances are read from the databases and compared with what the outcomes of
//     the transactions say they must be, to the last account; and the databases
//     are asked what they hold prepared, which must be nothing.
//  2. It succeeds only when every check of every scene did.
//  3. It leaves nothing behind: no process, no directory, no table, no prepared
//     transaction, also when it is interrupted.
//
// # Concurrency and time
//
// A tour is for one goroutine and ends with its context. The scenes with deadlines
// take as long as these, and elections their second or two; nothing else waits for
// the clock.
package demo
