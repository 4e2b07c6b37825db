// Package txntest is a coordinator in memory, for tests of code that uses transactions. Call
// [New] in a test: the [Manager] that it returns is a [txn.Manager] that decides as a real one
// does, by the same state machine, with the same timeouts and the same errors, and without a
// log, a disk or a network. It also has participants whose behaviour the test scripts.
//
// The code under test gets the manager in place of a client, and runs the effects of its work
// in place of SQL. This is a test of a transaction that takes too long:
//
//	func TestOrderTimesOut(t *testing.T) {
//		synctest.Test(t, func(t *testing.T) {
//			m := txntest.New(t)
//			bank, stock := m.Database("bank"), m.Database("stock")
//			stock.Fail("exec", txntest.Hang) // a lock that is never released
//
//			balance, began := 100, time.Now()
//			err := txn.Run(t.Context(), m, txn.Options{Timeout: 3 * time.Second}, func(ctx context.Context, tx *txn.Tx) error {
//				if err := bank.Exec(ctx, tx, func() { balance -= 10 }); err != nil {
//					return err
//				}
//				return stock.Exec(ctx, tx, func() { t.Error("the item is gone") })
//			})
//			if !errors.Is(err, txn.ErrTimedOut) || time.Since(began) != 3*time.Second {
//				t.Errorf("%v after %v", err, time.Since(began))
//			}
//
//			id := m.Transactions()[0].ID
//			if m.Outcome(id).State != txn.RolledBack || bank.State(id) != txn.BranchRolledBack || balance != 100 {
//				t.Errorf("bank is %v with a balance of %d", bank.State(id), balance)
//			}
//		})
//	}
//
// # Participants
//
// [Manager.Database] adds a participant at which the application does the work of its branch,
// as at a database, and [Manager.Service] one that the coordinator asks for its vote. The
// manager completes by itself the branches that the application has not completed, as recovery
// does: at once after a timeout and the end of an expired session, an [Interval] after another
// rollback, and a second after a commit that the application wanted to complete itself. A
// participant that is neither is registered when it is first enlisted; only the test completes
// its branches.
//
// # Sessions
//
// [Manager.OpenSession] opens a client session, and [Manager.KeepAlive] renews it. They work as
// those of a node: the code under test calls them by an interface of its own, or the test plays
// the client. A test of a client that dies stops calling KeepAlive; [Manager.Fail] makes the
// calls fail.
//
// # Faults
//
// [Database.VoteNo] and [Database.Fail] script a participant, [Manager.Fail] the
// coordinator. A [Fault] is for one call, and faults of the same call queue up.
//
// As with a real coordinator, begin and enlistments are sent while the code under test works
// ([txn.Start]): a fault of a begin shows at a later statement or at the commit, and whether a
// branch is sent with the begin or by a call of its own depends on time. Tests of such faults
// set [txn.Options.AwaitBegin], or call [txn.Tx.AwaitBegin].
//
// # Invariants
//
//  1. Every decision is made by txn/machine.
//  2. A transaction times out when its timeout has passed, and less than an [Interval] later.
//     One that began when the manager was made, or whole intervals later, times out exactly
//     when its timeout has passed.
//  3. A session expires when its TTL has passed without a keep-alive, and at most an eighth of
//     that later: one that is the only one of its TTL, and was never renewed, exactly that much
//     later.
//  4. Effects of a branch take place once, and only if it commits.
//  5. Nothing runs any more when the test has ended.
//
// # Concurrency and time
//
// Everything is safe for concurrent use. In a bubble of testing/synctest time is the bubble's.
// The manager has a timer only while a transaction or a session is open or a branch is left to
// it, so that the bubble detects a test that waits for nothing.
//
// # What it does not do
//
// It does not survive, cannot be reached from elsewhere, and has no quotas, no sweep and no
// operator. It provides no isolation: a [Database] has effects, not rows.
package txntest
