// Package txn is the public interface of txmgr: the types of a global transaction and the calls
// by which an application drives one. Call [Run] with a [Manager], and work with one
// participant or several inside:
//
//	m, err := client.Dial("http://127.0.0.1:7460") // the coordinator, which is a txn.Manager
//	if err != nil {
//		return err
//	}
//	bank := postgres.New("bank", pool)     // participants, by their registered names
//	stock := mariadb.New("stock", stockDB)
//
//	err = txn.Run(ctx, m, txn.Options{Name: "order"}, func(ctx context.Context, tx *txn.Tx) error {
//		if _, err := stock.Exec(ctx, tx, `UPDATE item SET n = n - 1 WHERE id = ?`, 7); err != nil {
//			return err
//		}
//		_, err := bank.Exec(ctx, tx, `UPDATE account SET balance = balance - $1 WHERE id = $2`, price, 1)
//		return err
//	})
//
// A nil error means that the transaction is decided to commit, durably: the coordinator
// finishes whatever the application cannot. [RunIn], [Inject] and [Extract] take a transaction
// to other services; package txn/txnhttp does so over HTTP.
//
// A global transaction spans several participants, each of which has one branch of it. It is
// decided exactly once, by one entry of a replicated log, and every branch is then driven to
// that decision. This package defines identities, states, outcomes and errors, and with [Tx]
// the application's part of the protocol. It decides nothing and does no I/O of its own:
// package txn/machine makes the decisions.
//
// # Order of calls
//
// Only one order is needed between the coordinator and the participants: no branch prepares, and
// no decision is delegated to it, before the coordinator has begun the transaction and has its
// branches. So [Run] names a transaction and its branches without a call where the manager is a
// [Namer], sends the begin and the enlistments while the work goes on, and waits for them before
// it prepares. [Tx.ID] waits for the begin: no id is given out that the coordinator does not
// know.
//
// # States
//
//	active -> preparing -> committing -> committed
//	   \          \
//	    +----------+--> rolling back -> rolled back
//
// [State] defines each of them. A transaction is decided from committing or rolling back on,
// and finished when it is committed or rolled back. A heuristic outcome is not a state: it
// marks a transaction of which a branch ended, or may have ended, otherwise than decided.
//
// # Errors
//
// The calls return [*Error]; [errors.Is] finds the sentinels in it. What the application may do
// next depends on them:
//
//	ErrRolledBack          nothing was applied: the work may be done again
//	ErrInDoubt             the answer was lost: ask Wait or Get with the id, repeat nothing before
//	ErrHeuristic           a branch ended, or may have ended, otherwise than decided
//	ErrEndedByApplication  a statement of an application ended a branch: look at the data
//	ErrForgotten           an old id was begun again: look at the data
//	ErrUnavailable         no coordinator answers: try again
//
// [ErrTimedOut], [ErrVotedNo] and [ErrSessionExpired] come with [ErrRolledBack] and say why.
//
// # Concurrency
//
// All types are values, except [Tx], whose documentation says how it may be shared.
package txn
