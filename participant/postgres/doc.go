// Package postgres lets PostgreSQL databases take part in global transactions,
// by PREPARE TRANSACTION. It needs PostgreSQL 13 or later, and
// max_prepared_transactions above 0.
//
// The application works through [DB]: one branch for each transaction and
// database, on one connection of its own pool. The coordinator's side is made by
// [Opener] from the settings of the registration; see there.
//
// # How a branch ends, for sure
//
// A branch that is not there any more says nothing by itself: it may have been
// committed by an attempt whose answer was lost, or by somebody's hand, or never
// prepared. So the application's session is recorded at enlist, before its first
// statement: see [Session]. By the transaction number PostgreSQL itself says how
// the branch ended (pg_xact_status). That is proof, with two limits that are
// looked at: it must be the same server; and a number that was given out but
// never reached the disk is given out again after a crash, so "committed" says
// nothing of a branch that never prepared when the server has recovered since:
// see [Session.Recovered].
//
// The only branch of a transaction commits in one phase, without a prepare, when
// its session recorded all that. If the answer is lost and the server crashes
// before the coordinator has asked, its end is unknown, unless it was no commit.
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
//  2. Only branches with the cluster's prefix, in the registered database, are
//     touched. A branch in another database of the server is an error that says
//     so.
//  3. Not found is never taken for success without proof: not after an attempt
//     of our own whose answer was lost, and not when the application may have
//     finished the branch itself. Without a session on record there is no proof.
//  4. Nothing that is said shows a password: no error, no diagnosis, and of the
//     statements of others no text in quotes.
//  5. A branch that is settled has ended: its session does not run its
//     transaction any more.
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
// [DB.TxOptions]; its branches vote read-only and are never prepared. It does not
// notice that a server was restored to an earlier time, or failed over to a
// standby that had not received everything: use synchronous replication.
package postgres
