// Package mariadb lets MariaDB databases take part in global transactions, by XA.
// It needs MariaDB 10.5 or later, InnoDB, and no Galera.
//
// The application works through [DB]: one branch for each transaction and
// database, on one connection of its own pool. The coordinator's side is made by
// [Driver] from the settings of the registration; see there. Who works without
// this package finds what to run in [ManualSQL].
//
// # How a branch ends, for sure
//
// MariaDB forgets a branch when it has ended, and says nothing of how. So the
// branch's first statement writes a row into the table of proof, in its own
// transaction. A row that can be read means that the branch has committed. A
// branch that is not listed as prepared and has no row, readable or locked, has
// not. Before the coordinator says that a branch which was never prepared is
// rolled back it writes that row itself: then the branch cannot begin any more,
// and if it has begun, and is not over, the row is locked, which is proof of that.
//
// The session that is recorded at enlist, see [SessionRef], also says which table
// that is. A row that somebody deletes by hand, and a server that was restored to
// an earlier time, cannot be told.
//
// # Connections
//
// Only the connection that prepared a branch can end it at once. MariaDB answers
// XA COMMIT from another with "unknown" while that one is there, and, while it is
// on its way out, with a success that is none: the branch is then neither
// committed nor listed, and its locks stay until the server is restarted. That
// the connection has left the list of connections is not enough: InnoDB lets go of
// the branch after that. So recovery ends the connection (KILL), and finishes the
// branch only when INNODB_TRX, read anew, has no transaction of that connection;
// and it looks for the row afterwards. InnoDB gives news ten times a second, which
// all branches that wait share.
//
// # Fencing
//
// When a transaction is rolled back while its session still holds the branch's
// work, and its locks, the connection is ended. A pooled connection may have gone
// on to other work; so the branch's row has to be locked, by none of the
// coordinators, and the connection to be the recorded one of the same start of
// the server. What remains is the instant between that look and the KILL.
//
// # Invariants
//
//  1. XA COMMIT and XA ROLLBACK are sent by the connection that prepared, or when
//     InnoDB has no transaction for it any more. When it is not on record, every
//     transaction that was open in a connection is waited for.
//  2. "Unknown XID" is never an end: the list of prepared branches, the row and
//     its lock decide, read in this order.
//  3. Only branches with the cluster's prefix are touched.
//  4. A connection that still has something of a branch, or may have, never goes
//     back to the pool.
//  5. What is concluded from a row was on disk before.
//  6. No error shows a password.
//
// # Who may do what
//
// The coordinator's user needs PROCESS, since a transaction that it may not see
// is not known to have ended, CONNECTION ADMIN to end those of other users, and
// SELECT, INSERT, UPDATE and DELETE on the table of proof. The application's user
// needs the same on that table. Whoever comes first makes it, if he may CREATE.
//
// # Concurrency and time
//
// A [DB] and a participant are used by many goroutines. Waiting goes by tickers
// and is bounded by the context, and by ten seconds a call.
//
// # What it does not do
//
// It does not find out that a branch changed nothing; a database of which the work
// is only read can say so by [DB.TxOptions]. A failed statement does not doom a
// branch, as it does not doom any transaction of MariaDB. Tables of engines that
// know no transactions are not rolled back. After a crash the server may list a
// branch again that was rolled back just before, which the sweep then rolls back
// once more. XA PREPARE gives up locks that were taken for reading only, unless
// the isolation is SERIALIZABLE. A server has one list of prepared branches for
// all its databases: the sweep of one sees those of the others. What stands
// between application and server and shares out its connections breaks XA; such a
// thing is found at the first statement.
package mariadb
