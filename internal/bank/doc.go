// Package bank contains the bank test: several processes move money between a PostgreSQL, a MariaDB
// and a web service, while everything is killed in turn. It contains only tests.
//
// # What runs
//
// A coordinator (the command line's server), a private PostgreSQL ("bank") with a synchronous
// standby, behind one address that leads to the primary, a private MariaDB ("savings"), a service
// with its own database ("vault"), and four clients, which transfer money with the SDK. Clients and
// vault are processes of this package's test program, started in another role. The coordinator
// reaches the participants, and the clients the coordinator, through proxies that can close
// connections or hang.
//
// Each transfer commits in a way that is drawn at random ([ways]): several branches, of which the log
// decides, with and without the options for the begin and the answer; or one branch in PostgreSQL or in
// MariaDB, appointed beforehand, or with the decision delegated to it; or both databases, of which the
// last one decides. A way says who has to decide, and
// whether the coordinator may not know a transfer that committed.
//
// Faults are injected one every few seconds, of every kind in turn, then at random; their order is
// drawn from a seed, which is printed. Meanwhile the test ends branches manually, which must cause
// the only heuristic outcomes that are found, and suspends connections, whose locks have to be free
// at the deadline. Some transfers end one of their branches by SQL of the application that the SDK
// refuses: by COMMIT, or by ROLLBACK and further work, which is committed at once. None of these
// may be reported as rolled back.
//
// # What has to hold at the end
//
//  1. Every transfer whose commit was acknowledged is in all the databases that it used, every one
//     that was reported rolled back is in none, and every other one is in all or none. None is in doubt
//     before its commit was requested, unless another process took part. None was committed without
//     the call that its way waits for.
//  2. The sum of the money is unchanged: in all, in each database, and in each account, whose
//     balance is what the journal says. What a typed statement committed in one database alone is
//     in the journal, and accounted for.
//  3. The coordinator reports for every transfer what the databases show. It knows every one that is
//     there, unless a branch that was appointed committed it: then the begin may have been lost, with
//     its client or the coordinator.
//  4. Nothing of this cluster is prepared, reserved, locked or open anywhere, and the commit
//     records of ended branches have been pruned, except for those of transfers that the coordinator
//     does not know, which are kept.
//  5. The heuristic outcomes are those that the test caused, and one for each branch that a typed
//     COMMIT committed, unless its enlistment came after the deadline; each is of the right kind, and
//     there is no other; each can be explained, resolved or forgotten. Only the end of a branch that
//     was made without the SDK, and so without a marker row, may be unknown after two crashes of
//     PostgreSQL.
//  6. Branches that other applications had prepared are there, unchanged.
//  7. A service was called back at most once for each phase of a branch, and refuses requests that
//     arrive after its end.
//  8. There was load, every kind of fault was injected, every kind of heuristic outcome was
//     caused, and statements typed in both databases had an effect. In a run of a minute or more
//     transfers were committed in every way, as it says.
//
// # Time
//
// Faults are injected for as long as -bank.time or TXMGR_BANK_TIME says, a minute by default; every
// wait after that is bounded. -bank.seed repeats an order of faults, but not the races between
// them. -bank.logs names a directory for the output of the processes.
package bank
