// Package txntest is a coordinator in memory, for the tests of those who use
// transactions. [Manager] is a [txn.Manager] that decides as a real one does: by the
// same state machine, with the same timeouts and the same errors, and without a log,
// a disk or a network. Beside it are participants that do what the test wants.
//
// The code under test gets the manager in place of a client, and the effects of its
// work in place of SQL. This is a test of a transaction that takes too long:
//
//	func TestOrderTimesOut(t *testing.T) {
//		synctest.Test(t, func(t *testing.T) {
//			m := txntest.New(t)
//			bank, stock := m.Resource("bank"), m.Resource("stock")
//			stock.Fail("exec", txntest.Hang) // a lock that nobody gives back
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
// [Manager.Database] is one in whose session the application works, as in that of a
// database, and [Manager.Service] one that the coordinator asks for its vote. What
// the application has left undone of their branches the manager finishes by itself,
// as recovery does: at once after a timeout and the end of a silent session, an
// [Interval] after another rollback, and a second after a commit that the application
// wanted to finish itself. A participant
// that is neither is registered when it is first enlisted; nobody finishes its
// branches but the test.
//
// # Sessions
//
// [Manager.OpenSession] opens a client's session, and [Manager.KeepAlive] is its sign of
// life. They are those of a node: the code under test calls them by an interface of its
// own, or the test plays the client. A test of a client that dies calls KeepAlive no
// more; [Manager.Fail] loses what it says.
//
// # What goes wrong
//
// [Database.VoteNo] and [Database.Fail] script a participant, [Manager.Fail] the
// coordinator. A [Fault] is for one call, and faults of the same call queue up.
//
// # Invariants
//
//  1. Every decision is made by txn/machine.
//  2. A transaction times out when its time is over, and less than an [Interval]
//     later. One that began when the manager was made, or whole intervals later,
//     times out exactly when its time is over.
//  3. A session expires when it has not been heard for its TTL, and at most an eighth
//     of that later: one that is the only one of its TTL, and was never heard, exactly
//     that much later.
//  4. Effects of a branch come about once, and only if it commits.
//  5. Nothing runs any more when the test is over.
//
// # Concurrency and time
//
// Everything is safe for concurrent use. In a bubble of testing/synctest time is the
// bubble's. The manager has a timer only while a transaction or a session is open or a
// branch is left to it, so that a test that waits for nothing is found by the bubble.
//
// # What it does not do
//
// It does not survive, cannot be reached from elsewhere, and has no quotas, no sweep
// and no operator. It isolates nothing: a [Database] has effects, not rows.
package txntest
