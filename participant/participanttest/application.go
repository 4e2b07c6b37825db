package participanttest

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/txmgr/txmgr/txn"
)

// Application is an application that uses two databases of one server, with an account in each.
type Application struct {
	// Coordinator is that of the two databases.
	*Coordinator
	// Move takes an amount from the first account and adds it to the second, in a global
	// transaction. It fails if the balance of the first one would be negative.
	Move func(ctx context.Context, tx *txn.Tx, amount int) error
	// Sleep runs a statement in the first database's branch that takes an hour.
	Sleep func(ctx context.Context, tx *txn.Tx) error
	// Deposit adds 1 to each account, in local transactions.
	Deposit func(t *testing.T)
	// Balances returns both balances, which are 100 at first.
	Balances func(t *testing.T) (first, second int64)
	// LimitPools allows the application two connections at a time to each database.
	LimitPools func(t *testing.T)
	// Crash crashes the server and starts it again.
	Crash func(t *testing.T)
}

// RunApplication runs the suite of a participant's application side, as far as databases have it in
// common. start returns a new application with new databases for each test.
func RunApplication(t *testing.T, start func(t *testing.T) Application) {
	for name, try := range map[string]func(*testing.T, Application){
		"CommitTogether":              commitTogether,
		"RollBackTogether":            rollBackTogether,
		"HangsPastItsDeadline":        hangsPastItsDeadline,
		"WorkEndsWithTheGrantedTime":  workEndsWithTheGrantedTime,
		"ServerDiesBeforeItsPhaseTwo": serverDiesBeforeItsPhaseTwo,
		"HotRowAndAFullPool":          hotRowAndAFullPool,
	} {
		t.Run(name, func(t *testing.T) {
			a := start(t)
			try(t, a)
			a.CheckNothingPrepared(t)
		})
	}
}

// run runs a transaction that moves 30, and then does what else is to be done.
func (a Application) run(t *testing.T, m txn.Manager, o txn.Options, also func(context.Context, *txn.Tx) error) error {
	t.Helper()
	return txn.Run(t.Context(), m, o, func(ctx context.Context, tx *txn.Tx) error {
		if err := a.Move(ctx, tx, 30); err != nil || also == nil {
			return err
		}
		return also(ctx, tx)
	})
}

func (a Application) want(t *testing.T, first, second int64) {
	t.Helper()
	if one, two := a.Balances(t); one != first || two != second {
		t.Errorf("balances %d and %d; want %d and %d", one, two, first, second)
	}
}

func (a Application) wantUnreported(t *testing.T, n int) {
	t.Helper()
	if left := a.Unreported(a.Last()); len(left) != n {
		t.Errorf("the application did not report %v; want %d branches", left, n)
	}
}

func commitTogether(t *testing.T, a Application) {
	if err := a.run(t, a, txn.Options{}, nil); err != nil {
		t.Error(err)
	}
	a.want(t, 70, 130)
	a.wantUnreported(t, 0)
}

func rollBackTogether(t *testing.T, a Application) {
	boom := errors.New("boom")
	if err := a.run(t, a, txn.Options{}, func(context.Context, *txn.Tx) error { return boom }); !errors.Is(err, txn.ErrRolledBack) || !errors.Is(err, boom) {
		t.Errorf("the function fails: %v", err)
	}
	a.wantUnreported(t, 0)
	if err := a.run(t, a, txn.Options{}, func(ctx context.Context, tx *txn.Tx) error { return a.Move(ctx, tx, 1000) }); !errors.Is(err, txn.ErrRolledBack) {
		t.Errorf("a statement fails: %v", err)
	}
	a.wantUnreported(t, 0)
	a.want(t, 100, 100)
}

// hangsPastItsDeadline: the coordinator times the transaction out and releases the rows although the
// application does not respond.
func hangsPastItsDeadline(t *testing.T, a Application) {
	err := a.run(t, a, txn.Options{}, func(_ context.Context, tx *txn.Tx) error {
		a.TimeOut(tx.ID())
		a.Recover(t, tx.ID())
		a.Deposit(t) // the rows are free
		return nil
	})
	if !errors.Is(err, txn.ErrRolledBack) {
		t.Errorf("got %v", err)
	}
	a.want(t, 101, 101)
}

// workEndsWithTheGrantedTime: the context ends a statement that waits, and the coordinator finishes the
// branches that the application could not.
func workEndsWithTheGrantedTime(t *testing.T, a Application) {
	err := a.run(t, a, txn.Options{Timeout: 300 * time.Millisecond}, a.Sleep)
	if !errors.Is(err, txn.ErrTimedOut) || !errors.Is(err, txn.ErrRolledBack) {
		t.Errorf("got %v", err)
	}
	a.TimeOut(a.Last())
	a.Recover(t, a.Last())
	a.want(t, 100, 100)
}

// serverDiesBeforeItsPhaseTwo: under the application, between the votes and the commit.
func serverDiesBeforeItsPhaseTwo(t *testing.T, a Application) {
	if err := a.run(t, &crashing{a, t}, txn.Options{}, nil); err != nil {
		t.Error(err) // it was decided
	}
	a.wantUnreported(t, 2) // it cannot have finished on a dead server
	a.Recover(t, a.Last())
	a.want(t, 70, 130)
}

// crashing is a coordinator that decides, and then the server crashes.
type crashing struct {
	Application
	t *testing.T
}

func (c *crashing) Commit(ctx context.Context, id txn.ID, r txn.CommitRequest) (txn.Outcome, error) {
	out, err := c.Application.Commit(ctx, id, r)
	c.Crash(c.t)
	return out, err
}

// hotRowAndAFullPool: more transactions than connections, all on the same rows, and only the
// applications finish them. A prepared branch that queued for a connection would wait for
// transactions that wait for its rows.
func hotRowAndAFullPool(t *testing.T, a Application) {
	a.LimitPools(t)
	ctx, cancel := context.WithTimeout(t.Context(), Patience)
	defer cancel()
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 5 {
				if err := txn.Run(ctx, a, txn.Options{}, func(ctx context.Context, tx *txn.Tx) error { return a.Move(ctx, tx, 1) }); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	a.want(t, 60, 140)
}
