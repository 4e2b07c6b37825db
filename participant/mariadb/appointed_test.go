package mariadb

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"time"

	"github.com/txmgr/txmgr/node"
	"github.com/txmgr/txmgr/participant"
	"github.com/txmgr/txmgr/recovery"
	"github.com/txmgr/txmgr/txn"
	"github.com/txmgr/txmgr/txn/admin"
)

// appointing is a real coordinator of which an application loses what it is told to.
type appointing struct {
	*node.Node

	bank     *bank
	noBegin  bool // the begin is lost
	noReport bool // the report of the branch's end is lost
}

func (a *appointing) Begin(ctx context.Context, o txn.Options) (txn.BeginResult, error) {
	if a.noBegin {
		return txn.BeginResult{}, txn.ErrUnavailable
	}
	return a.Node.Begin(ctx, o)
}

func (a *appointing) ReportCompletion(ctx context.Context, id txn.ID, reports ...txn.CompletionReport) error {
	if a.noReport {
		return nil
	}
	return a.Node.ReportCompletion(ctx, id, reports...)
}

func newAppointing(t *testing.T) *appointing {
	t.Helper()
	n, err := node.Open(t.Context(), node.Config{
		DataDir: t.TempDir(), Interval: 10 * time.Millisecond, Logger: slog.New(slog.DiscardHandler),
		Drivers:  map[string]participant.Driver{Kind: Driver},
		Recovery: recovery.Config{BackoffMax: 50 * time.Millisecond, SweepEvery: 100 * time.Millisecond},
	})
	check(t, err)
	t.Cleanup(func() { check(t, n.Close()) })
	a := &appointing{Node: n, bank: newBank(t)}
	check(t, n.Admin().AddParticipant(t.Context(), admin.Participant{Name: "bank", Kind: Kind, Settings: map[string]string{"dsn": a.bank.dsn}}, "", ""))
	a.bank.exec(t, "INSERT INTO account VALUES ('alice', 100)")
	return a
}

// begin takes 10 from alice, in a transaction that the coordinator has been told of.
func (a *appointing) begin(t *testing.T, timeout time.Duration) *txn.Tx {
	t.Helper()
	tx, err := txn.Start(t.Context(), a, txn.Options{Timeout: timeout})
	check(t, err)
	_, err = a.bank.db.Exec(t.Context(), tx, "UPDATE account SET balance = balance - 10 WHERE id = 'alice'")
	check(t, err)
	check(t, tx.AwaitBegin(t.Context()))
	return tx
}

// ended waits for the end of a transaction, and checks it, and the balance.
func (a *appointing) ended(t *testing.T, tx *txn.Tx, state txn.State, cause txn.Cause, balance int64) {
	t.Helper()
	id, err := txn.ParseID(tx.String())
	check(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	info, err := a.Wait(ctx, id, txn.UntilFinished)
	if err != nil || info.State != state || info.Cause != cause || info.Heuristic != 0 {
		t.Errorf("ended %v by %q with heuristic %q, %v; want %v by %q", info.State, info.Cause, info.Heuristic, err, state, cause)
	}
	if got := a.bank.balance(t, "alice"); got != balance {
		t.Errorf("alice has %d, want %d", got, balance)
	}
}

// TestAppointedBranch: the only branch decides by its own end, whatever else happens to its transaction.
func TestAppointedBranch(t *testing.T) {
	for name, test := range map[string]func(t *testing.T, a *appointing){
		"commits": func(t *testing.T, a *appointing) {
			tx := a.begin(t, time.Minute)
			check(t, tx.Commit(t.Context()))
			a.ended(t, tx, txn.Committed, 0, 90)
		},
		"commits, and the report is lost": func(t *testing.T, a *appointing) {
			a.noReport = true
			tx := a.begin(t, 2*time.Second)
			check(t, tx.Commit(t.Context()))
			a.ended(t, tx, txn.Committed, 0, 90)
		},
		"commits, and the begin is lost": func(t *testing.T, a *appointing) {
			a.noBegin = true
			err := txn.Run(t.Context(), a, txn.Options{}, func(ctx context.Context, tx *txn.Tx) error {
				_, err := a.bank.db.Exec(ctx, tx, "UPDATE account SET balance = balance - 10 WHERE id = 'alice'")
				return err
			})
			// The refusal may come before the commit.
			want := int64(90)
			if errors.Is(err, txn.ErrRolledBack) {
				want = 100
			} else {
				check(t, err)
			}
			if got := a.bank.balance(t, "alice"); got != want {
				t.Errorf("alice has %d, want %d: %v", got, want, err)
			}
		},
		"rolls back": func(t *testing.T, a *appointing) {
			tx := a.begin(t, time.Minute)
			check(t, tx.Rollback(t.Context(), "changed its mind"))
			a.ended(t, tx, txn.RolledBack, txn.CauseClient, 100)
		},
		"is still open at the deadline": func(t *testing.T, a *appointing) {
			tx := a.begin(t, time.Second)
			a.ended(t, tx, txn.RolledBack, txn.CauseTimeout, 100)
			if err := tx.Commit(t.Context()); !errors.Is(err, txn.ErrRolledBack) {
				t.Errorf("commit of a session that was ended: %v", err)
			}
		},
		"is rolled back by another": func(t *testing.T, a *appointing) {
			tx := a.begin(t, time.Minute)
			id, err := txn.ParseID(tx.String())
			check(t, err)
			if o, err := a.Rollback(t.Context(), id, "not any more"); err != nil || o.State.Commits() || !o.State.Decided() {
				t.Errorf("%+v, %v", o, err)
			}
			if err := tx.Commit(t.Context()); !errors.Is(err, txn.ErrRolledBack) {
				t.Errorf("commit of a session that was ended: %v", err)
			}
			a.ended(t, tx, txn.RolledBack, txn.CauseClient, 100)
		},
		"has committed when another wants it rolled back": func(t *testing.T, a *appointing) {
			a.noReport = true
			tx := a.begin(t, time.Hour)
			check(t, tx.Commit(t.Context()))
			id, err := txn.ParseID(tx.String())
			check(t, err)
			if o, err := a.Rollback(t.Context(), id, "too late"); !errors.Is(err, txn.ErrConflict) || !o.State.Commits() {
				t.Errorf("%+v, %v", o, err)
			}
			a.ended(t, tx, txn.Committed, 0, 90)
		},
		"is revoked when the id is given out": func(t *testing.T, a *appointing) {
			tx := a.begin(t, time.Minute)
			info, err := a.Get(t.Context(), tx.ID())
			if err != nil || info.Branches[0].Vote != 0 {
				t.Errorf("%+v, %v", info, err)
			}
			check(t, tx.Commit(t.Context()))
			a.ended(t, tx, txn.Committed, 0, 90)
		},
	} {
		t.Run(name, func(t *testing.T) { test(t, newAppointing(t)) })
	}
}

// TestAppointedBranchAndASecond: the second one revokes the appointment, and both commit in two phases.
func TestAppointedBranchAndASecond(t *testing.T) {
	a, shop := newAppointing(t), newBank(t)
	shop.db = New("shop", shop.pool)
	shop.exec(t, "INSERT INTO account VALUES ('alice', 100)")
	check(t, a.Admin().AddParticipant(t.Context(), admin.Participant{Name: "shop", Kind: Kind, Settings: map[string]string{"dsn": shop.dsn}}, "", ""))
	tx := a.begin(t, time.Minute)
	_, err := shop.db.Exec(t.Context(), tx, "UPDATE account SET balance = balance + 10 WHERE id = 'alice'")
	check(t, err)
	check(t, tx.Commit(t.Context()))
	a.ended(t, tx, txn.Committed, 0, 90)
	info, err := a.Get(t.Context(), tx.ID())
	if err != nil || len(info.Branches) != 2 || info.Branches[0].Vote != txn.VotePrepared || info.Branches[1].Vote != txn.VotePrepared {
		t.Errorf("%+v, %v", info, err)
	}
	if got := shop.balance(t, "alice"); got != 110 {
		t.Errorf("alice has %d there, want 110", got)
	}
}
