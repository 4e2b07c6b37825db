// Package demo is the demo of txmgr: six scenarios with two databases, a web service, a coordinator
// and injected failures, each of which checks what the product promises. Call [Run]:
//
//	s, err := demo.Run(ctx, demo.Config{Program: program, Reporter: demo.Reporter{Out: os.Stdout}})
//
// The coordinator is a process of its own, or a cluster of three, so that a crash is a real one.
// The databases are real too: private PostgreSQL and MariaDB servers, embedded ledgers, or
// databases of the user. The service is called over HTTP, and keeps its barrier in a ledger.
//
// # Invariants
//
//  1. Results are checked, not assumed: after every scenario all balances are read from the
//     databases and compared with those that follow from the outcomes of the transactions, to the
//     last account; and the databases are asked for prepared transactions, of which there must be
//     none.
//  2. The demo succeeds only if every check of every scenario did.
//  3. It leaves nothing behind: no process, no directory, no table, no prepared transaction, also
//     when it is interrupted.
//
// # Concurrency and time
//
// A demo is for one goroutine and ends with its context. The scenarios with deadlines take as long
// as these, and an election one or two seconds; nothing else waits for the clock.
package demo
