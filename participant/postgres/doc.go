// Package postgres lets PostgreSQL databases take part in global transactions,
// by PREPARE TRANSACTION. It needs PostgreSQL 13 or later, and
// max_prepared_transactions above 0.
//
// The application works through [DB]: one branch for each transaction and
// database, on one connection of its own pool. The coordinator's side is made by
// [Driver] from the settings of the registration; see there.
//
// # How a branch ends, for sure
//
// A branch that is not there any more says nothing by itself: it may have been
// committed by an attempt whose answer was lost, or by somebody's hand, or never
// prepared. So the application's session is recorded at enlist, before its first
// statement: see [SessionRef]. By the transaction number PostgreSQL itself says how
// the branch ended (pg_xact_status). That is proof, with two limits that are
// looked at: it must be the same server; and a number that was given out but
// never reached the disk is given out again after a crash, so "committed" says
// nothing of a branch that never prepared when the server has recovered since:
// see [SessionRef.Recovered] and [SessionRef.Replayed].
//
// A standby that had not received the branch gives its number to another
// transaction, when it is promoted; so does a server that was restored to an
// earlier time. Both begin another timeline, which is on record, with the place in
// the write-ahead log of a record that has the number: see [SessionRef.Timeline] and
// [SessionRef.Written]. On another timeline "committed" is surely not the branch's if that
// place is not in the server's history (pg_wal/*.history), and unknown if the
// coordinator's user may not read the history. If the place is in it, "committed" is
// proof of a branch that voted yes. Of any other it is unknown: the record is not waited
// for, and the old primary may have lost it in a crash before. A number
// that is not committed shows on any timeline that the branch is not committed
// there. A branch that is prepared is finished as ever.
//
// The only branch of a transaction commits in one phase, without a prepare, when
// its session recorded all that. If the answer is lost and the server crashes, or fails
// over, before the coordinator has asked, its end is unknown, unless it was no commit.
//
// # Fencing
//
// When a transaction is rolled back while its session still holds the branch's
// work, and its locks, the session is terminated. A pooled session may have gone
// on to other work; so it has to have the recorded process id, start and
// transaction number, all three in one look. What remains is the instant between
// that look and the signal.
//
// # Invariants
//
//  1. A yes vote is the command tag PREPARE TRANSACTION, of the transaction whose
//     number was recorded. A failed transaction answers ROLLBACK, without an
//     error.
//
//  2. Only branches with the cluster's prefix, in the registered database, are
//     touched. A branch in another database of the server is an error that says
//     so.
//
//  3. Not found is never taken for success without proof: not after an attempt
//     of our own whose answer was lost, and not when the application may have
//     finished the branch itself. Without a session on record there is no proof.
//
//  4. Nothing that is said shows a password: no error, no diagnosis, and of the
//     statements of others no text in quotes.
//
//  5. A branch that is settled has ended: its session does not run its
//     transaction any more.
//
//  6. A transaction that the application's own statements ended is never told as
//     rolled back. A statement whose text begins or ends a transaction is not sent;
//     the state of the connection is looked at after every statement, and the
//     number of the transaction before its end.
//
// # Who may do what
//
// PostgreSQL lets a branch be finished by the user that prepared it and by
// superusers, and a session be seen and ended by the same user, superusers, and
// roles with pg_read_all_stats and pg_signal_backend. Simplest is that the
// coordinator and the application use the same user.
//
// # Poolers
//
// A branch works through a pooler that gives out connections by the transaction
// (pgbouncer: pool_mode=transaction): the session on record is the server's own, so
// proof and fence are as ever, and PREPARE TRANSACTION is the transaction's end.
// But the connection is given away then, and the commit has to queue for one,
// behind those that wait for the branch's locks: when they have all connections,
// nothing moves. And named prepared statements fail, which pgx uses by default.
// Use session mode, and let the coordinator connect to the server itself. The
// examination finds a pooler in the coordinator's way, not in the application's.
//
// # What it does not do
//
// It does not find out that a branch changed nothing: every branch gets a
// transaction number. A database of which the work is only read can say so by
// [DB.TxOptions]; its branches vote read-only and are never prepared.
//
// It does not always tell two histories apart that have one number: two standbys of
// one primary that are both promoted, without an archive of the write-ahead log that
// both use, each begin a timeline of the same number, and so may two restores; and a
// backup that is put back as it is stays on its timeline. That shows as long as the
// server knows how far it came when it last recovered (pg_last_wal_replay_lsn), and
// that is before the branch. After an orderly restart, or when it recovered further, a
// number may be another transaction's. Have one server promoted at a time, and the
// other one gone.
//
// Past the guard, on the Conn of [DB.Tx] or of rows, it does not tell whether a
// transaction that has failed is the branch's own, nor which one was open when the
// connection was lost. Once the connection was given out both are [txn.ErrEndedByApplication],
// which may be wrong, and never [txn.ErrRolledBack]. A tracer, a [pgx.RowScanner] and
// the functions of a [pgx.Batch] come by the connection without being noticed.
package postgres
