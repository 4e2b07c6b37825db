// Package mariadb is the participant driver for MariaDB: its branches are XA transactions. It
// needs MariaDB 10.5 or later, InnoDB, and no Galera.
//
// The application calls [New] once for each database, and runs its statements through the
// [DB]. A transaction has one branch in each database that it uses, on one connection of the
// application's own pool:
//
//	stock := mariadb.New("stock", db) // a *sql.DB of github.com/go-sql-driver/mysql
//	err := txn.Run(ctx, m, txn.Options{}, func(ctx context.Context, tx *txn.Tx) error {
//		_, err := stock.Exec(ctx, tx, `UPDATE item SET n = n - 1 WHERE id = ?`, 7)
//		return err
//	})
//
// The coordinator makes its side with [Driver], from the settings of the registration. An
// application that does not use this package runs the statements of [ManualSQL].
//
// # How the outcome of a branch is proved
//
// MariaDB forgets a branch when it has ended, and does not report its outcome. So the branch's
// first statement inserts a marker row into the marker table, in its own transaction. A row that
// can be read means that the branch has committed. A branch that is not listed as prepared and
// has no row, readable or locked, has not. Before the coordinator reports that a branch which
// was never prepared is rolled back, it inserts that row itself, as a barrier: then the branch
// cannot begin any more, and if it has begun and not ended, its row is locked, which proves
// that.
//
// The session reference that is recorded at enlist, see [SessionRef], also identifies the marker
// table. A marker row that is deleted manually, and a server that was restored to an earlier
// time, cannot be detected.
//
// # Connections
//
// Only the connection that prepared a branch can end it at once. While that connection exists,
// MariaDB answers an XA COMMIT from another one with "unknown"; while it is closing, MariaDB may
// report success and lose the branch: it is then neither committed nor listed, and its locks
// stay until the server is restarted. That the connection is not in the process list any more is
// not enough: InnoDB releases the branch after that. So recovery ends the connection (KILL), and
// finishes the branch only if INNODB_TRX, read anew, has no transaction of that connection; and
// it reads the marker row afterwards. InnoDB refreshes INNODB_TRX ten times a second; all
// branches that wait share one read.
//
// # Fencing
//
// If a transaction is rolled back while its connection still holds the branch's work and locks,
// the connection is ended. A pooled connection may serve other work by then. So the branch's row
// has to be locked, by none of the coordinators, and the connection has to be the recorded one,
// of the same start of the server. What remains is the instant between that check and the KILL.
//
// # Invariants
//
//  1. XA COMMIT and XA ROLLBACK are sent by the connection that prepared, or when InnoDB has no
//     transaction for it any more. If the connection is not recorded, recovery waits for every
//     transaction that was open in a connection.
//  2. "Unknown XID" is never an outcome: the list of prepared branches, the marker row and its
//     lock decide, read in this order.
//  3. Only branches with the cluster's prefix are touched.
//  4. A connection that still has something of a branch, or may have, never returns to the pool.
//  5. What is concluded from a marker row was on disk before.
//  6. No error shows a password.
//
// # Permissions
//
// The coordinator's user needs PROCESS, since a transaction that it may not see is not known to
// have ended; CONNECTION ADMIN, to end the connections of other users; and SELECT, INSERT,
// UPDATE and DELETE on the marker table. The application's user needs the same privileges on
// that table. The first of the two that uses the table creates it, if it has the privilege
// CREATE.
//
// # Concurrency and time
//
// A [DB] and a participant are safe for concurrent use. Waiting polls with tickers, and is
// bounded by the context and by ten seconds a call.
//
// # What it does not do
//
// It does not detect that a branch changed nothing; an application that only reads a database
// sets [DB.TxOptions]. A failed statement does not make a branch roll back, as in any
// transaction of MariaDB. Tables of engines without transactions are not rolled back. After a
// crash the server may list a branch again that was rolled back just before; the sweep then
// rolls it back once more. XA PREPARE releases locks that were taken for reading only, unless
// the isolation level is SERIALIZABLE. A server has one list of prepared branches for all its
// databases: the sweep of one sees those of the others. A proxy that shares connections between
// clients breaks XA; it is detected at the first statement.
package mariadb
