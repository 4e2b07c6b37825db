// Package postgres is the participant driver for PostgreSQL: it prepares branches with
// PREPARE TRANSACTION. It needs PostgreSQL 13 or later, and max_prepared_transactions above 0.
//
// The application calls [New] once for each database, and runs its statements through the
// [DB]. A transaction has one branch in each database that it uses, on one connection of the
// application's own pool:
//
//	bank := postgres.New("bank", pool) // a *pgxpool.Pool
//	err := txn.Run(ctx, m, txn.Options{}, func(ctx context.Context, tx *txn.Tx) error {
//		_, err := bank.Exec(ctx, tx, `UPDATE account SET balance = balance - 10 WHERE id = $1`, 1)
//		return err
//	})
//
// The coordinator makes its side with [Driver], from the settings of the registration.
//
// # How the outcome of a branch is proved
//
// That a branch is not prepared any more proves nothing by itself: an attempt whose answer was
// lost may have committed it, another client may have ended it, or it never prepared. The
// backend that works for the branch is therefore recorded at enlist, before its first
// statement: see [SessionRef]. By the recorded transaction number PostgreSQL itself reports the
// outcome (pg_xact_status). This is proof within two limits, which are checked. The server must
// be the same. And a number that was assigned but never reached the disk is assigned again
// after a crash: if the server has recovered since, "committed" proves nothing about a branch
// that never prepared. See [SessionRef.Recovered] and [SessionRef.Replayed].
//
// A standby that had not received the branch assigns its number to another transaction after a
// promotion; so does a server that was restored to an earlier time. Both begin another
// timeline. The session reference records the timeline, and the place in the write-ahead log of
// a record that has the number: see [SessionRef.Timeline] and [SessionRef.Written]. On another
// timeline a "committed" is certainly not the branch's if that place is not in the server's
// history (pg_wal/*.history), and the outcome is unknown if the coordinator's user may not read
// the history. If the place is in the history, "committed" proves the outcome of a branch that
// voted yes. The outcome of any other branch is unknown: the record is written without waiting
// for the disk, and the old primary may have lost it in an earlier crash. A number that is not
// committed proves on any timeline that the branch is not committed there. A branch that is
// prepared is finished as usual.
//
// For a branch that was not prepared a number is not enough. So a branch also writes a marker row
// into the marker table, in its own transaction, before its first statement and in the message that
// begins the transaction if its name is known by then. Wherever the row can be read, after a crash,
// a failover or a restore, the branch is committed. When the coordinator does not find the row, it
// writes it itself, as a barrier: then the branch cannot write its own any more, and if it has, and
// has not ended, its row is locked, which proves that. So the only branch of a transaction may
// commit in one phase, without prepare, and its outcome is known in every case
// ([participant.OutcomeResolver]). Branches that prepare are proved by their numbers, as above, and by
// the row where the number leaves the end open. The session reference identifies the marker table: see [SessionRef.Table]. A row that is deleted
// manually is not detected once the number proves nothing any more.
//
// # Fencing
//
// If a transaction is rolled back while its backend still holds the branch's work and locks,
// the backend is terminated. A pooled connection may serve other work by then. So one query
// compares the recorded process id, start time and transaction number and sends the signal only
// if all three match. What remains is the instant between the comparison and the signal.
//
// # Invariants
//
//  1. A yes vote is the command tag PREPARE TRANSACTION, of the transaction whose number was
//     recorded. A failed transaction answers ROLLBACK, without an error.
//
//  2. Only branches with the cluster's prefix, in the registered database, are touched. A branch
//     in another database of the server is an error that says so.
//
//  3. Not found is never taken for success without proof: not after an attempt of the
//     coordinator's own whose answer was lost, and not if the application may have finished the
//     branch itself. Without a session reference there is no proof.
//
//  4. No output contains a password: no error and no health check. Quoted texts in the
//     statements of other clients are not shown.
//
//  5. A branch whose outcome [participant.OutcomeResolver] reports has ended: its backend does
//     not run its transaction any more. What is concluded from a marker row was on disk, and on
//     the synchronous standby, before.
//
//  6. A transaction that the application's own statements ended is never reported as rolled
//     back. A statement whose text begins or ends a transaction is not sent; the state of the
//     connection is checked after every statement, and the number of the transaction before its
//     end.
//
// # Permissions
//
// PostgreSQL lets a prepared transaction be finished by the user that prepared it and by
// superusers. A backend can be seen and terminated by its own user, by superusers, and by roles
// with pg_read_all_stats and pg_signal_backend. It is simplest if the coordinator and the
// application connect as the same user.
//
// The coordinator creates the marker table when it first checks the participant, some seconds after
// the registration, if its user has CREATE on the schema public. It needs SELECT, INSERT, UPDATE and DELETE on the table;
// the application's user needs INSERT. Without the table, or without that privilege, every branch
// prepares.
//
// # Poolers
//
// A branch works through a pooler that assigns connections per transaction (pgbouncer:
// pool_mode=transaction): the session reference names the server's own backend, so proof and
// fencing work as usual, and PREPARE TRANSACTION is the end of the transaction. But the pooler
// reassigns the connection then, and the commit has to queue for one behind the clients that
// wait for the branch's locks: if they occupy all connections, nothing proceeds. And named
// prepared statements fail, which pgx uses by default; those of this package are then sent as
// text. Use session mode, and let the coordinator connect to the server directly. The health check finds a pooler between the
// coordinator and the server, not one in front of the application.
//
// # Prepared statements
//
// What begins and ends a branch is prepared once on each connection, under names that begin with
// txmgr_, if pgx's mode of the connection is [pgx.QueryExecModeCacheStatement], its default; and
// otherwise sent as text, and so parsed for each branch. A connection whose prepared statements
// have been removed (DISCARD ALL) uses texts from then on. A branch that removes them by itself
// (DEALLOCATE ALL) cannot commit in one phase, and is rolled back.
//
// # What it does not do
//
// It does not detect that a branch changed nothing: every branch gets a transaction number. An
// application that only reads a database sets [DB.TxOptions]; its branches vote read-only and
// are never prepared.
//
// It cannot always distinguish two histories with the same timeline number. Two standbys of one
// primary that are both promoted, without a shared archive of the write-ahead log, each begin a
// timeline of the same number; so may two restores; and a backup that is put back as it is
// stays on its timeline. This is detected as long as the server knows how far its last recovery
// came (pg_last_wal_replay_lsn), and that is before the branch. After an orderly restart, or if
// recovery went further, a number may belong to another transaction. Promote one server at a
// time, and shut the other one down.
//
// For an application that uses the Conn of [DB.Tx] or of rows, it cannot determine whether a
// transaction that has failed is the branch's own, nor which one was open when the connection
// was lost. Once it was given the connection, both are reported as [txn.ErrEndedByApplication],
// which may be wrong, and never as [txn.ErrRolledBack]. A tracer, a [pgx.RowScanner] and the
// functions of a [pgx.Batch] get the connection without being detected.
package postgres
