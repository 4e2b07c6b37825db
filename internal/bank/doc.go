// Package bank holds the bank test: money moves between a PostgreSQL, a MariaDB and
// a web service, by several processes, while everything is killed in turn. It has
// tests only.
//
// # What runs
//
// A coordinator (the command line's server), a private PostgreSQL ("bank") with a
// synchronous standby, behind one address that leads to the primary, a private MariaDB
// ("savings"), a service with its own database ("vault"), and four tellers, which
// transfer money with the SDK. Tellers and vault are this package's own test program,
// started once more in another role. The coordinator reaches the participants,
// and the tellers the coordinator, through relays that can lose connections or hang.
//
// Faults come one every few seconds, of every kind in turn, then at random; their order
// is drawn from a seed, which is printed. Meanwhile branches are finished by hand, which
// are the only hazards that may be found, and sessions hang, whose locks have to be free
// at the deadline. Some transfers end one of their branches by SQL of their own, past what
// the SDK refuses: by COMMIT, or by ROLLBACK and further work, which is committed at once.
// None of these may be told that it was rolled back.
//
// # What has to hold at the end
//
//  1. Every transfer whose commit was acknowledged is in all the databases that it
//     touched, every one that was called rolled back in none, and every other one in all
//     or none.
//  2. No money is made or lost: in all, in each database, and in each account, whose
//     balance is what the journal says. What a typed statement committed on one side alone is
//     in the journal, and accounted for.
//  3. The coordinator tells of every transfer what the databases show.
//  4. Nothing of ours is prepared, reserved, locked or open anywhere, and the evidence of
//     ended branches has been cleared away.
//  5. Hazards are those that were planted, and one for each branch that a typed COMMIT
//     committed; each is of the right kind, and there is no other; each can be explained,
//     resolved or forgotten.
//  6. What others had prepared is there, untouched.
//  7. A service was called back at most once for each phase of a branch, and refuses
//     requests that come after its end.
//  8. There was traffic, every kind of fault has struck, every kind of hazard was
//     planted, and statements typed in both databases had an effect.
//
// # Time
//
// The storm lasts as long as -bank.time or TXMGR_BANK_TIME says, a minute if they do
// not; every wait after it is bounded. -bank.seed repeats an order of faults, but not
// the races between them. -bank.logs names a directory for what the processes say.
package bank
