package node

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/txmgr/txmgr/participant"
	"github.com/txmgr/txmgr/participant/ledger"
	"github.com/txmgr/txmgr/txn"
)

// TestNamedTransactionIsBegunAsNamed, with the id, the timeout and the mark that were given out.
func TestNamedTransactionIsBegunAsNamed(t *testing.T) {
	n, _, _ := withLedgers(t, func(c *Config) { c.DefaultTimeout = 17 * time.Second })
	named, ok := n.NameTransaction(t.Context(), txn.Options{Name: "order"})
	if !ok || !named.Appoints || named.Options.ID.IsZero() || named.Options.Mark.IsZero() || named.Options.Timeout != 17*time.Second {
		t.Fatalf("%+v, %v", named, ok)
	}
	o := named.Options
	o.Branches = []txn.Enlistment{{Participant: "bank"}}
	b, err := n.Begin(t.Context(), o)
	if err != nil || !b.Appoints || b.ID != o.ID || b.Timeout != o.Timeout || b.Branches[0].XID != txn.XID(named.Cluster, o.ID, 1) {
		t.Errorf("%+v, %v", b, err)
	}
}

// TestStartRefusesWhatTheNodeRefuses: an embedded node looks at what it knows, and returns the error
// before the work.
func TestStartRefusesWhatTheNodeRefuses(t *testing.T) {
	n, bank, _ := withLedgers(t, func(c *Config) { c.MaxOpen = 1 })
	if _, err := txn.Start(t.Context(), n, txn.Options{Timeout: time.Nanosecond}); !errors.Is(err, txn.ErrInvalid) || errors.Is(err, txn.ErrRolledBack) {
		t.Errorf("a timeout below the interval: %v", err)
	}
	tx, err := txn.Start(t.Context(), n, txn.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if err := bank.Add(t.Context(), tx, "a", 1); err != nil {
		t.Fatal(err)
	}
	if err := tx.AwaitBegin(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := txn.Start(t.Context(), n, txn.Options{}); !errors.Is(err, txn.ErrUnavailable) || errors.Is(err, txn.ErrRolledBack) {
		t.Errorf("one more than may be open: %v", err)
	}
	if err := tx.Rollback(t.Context(), "enough"); err != nil {
		t.Error(err)
	}
}

// TestRefusalBehindTheWork: a participant that is not registered is known only to the log, after
// the work has begun. Nothing is applied, and the error says why.
func TestRefusalBehindTheWork(t *testing.T) {
	n, bank, _ := withLedgers(t)
	unknown := ledger.New("unknown", t.TempDir()+"/unknown")
	err := txn.Run(t.Context(), n, txn.Options{}, func(ctx context.Context, tx *txn.Tx) error {
		return errors.Join(bank.Add(ctx, tx, "a", -10), unknown.Add(ctx, tx, "a", 10))
	})
	if !errors.Is(err, txn.ErrRolledBack) || !errors.Is(err, txn.ErrNotFound) {
		t.Errorf("%v; want that it is rolled back, and the refusal", err)
	}
	if b, err := bank.Balances(t.Context()); err != nil || b["a"] != 100 {
		t.Errorf("%v, %v", b, err)
	}
}

// TestCloseWritesReports: the reports of a transaction that has just ended are in the log when the
// node is closed; recovery, which would wait for the client's grace period, is not needed.
func TestCloseWritesReports(t *testing.T) {
	n, bank, stock := withLedgers(t, func(c *Config) { c.Recovery.ClientGrace = time.Hour })
	var id string
	err := txn.Run(t.Context(), n, txn.Options{}, func(ctx context.Context, tx *txn.Tx) error {
		id = tx.String()
		return errors.Join(bank.Add(ctx, tx, "a", -10), stock.Add(ctx, tx, "a", 10))
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := n.Close(); err != nil {
		t.Fatal(err)
	}
	again := open(t, n.conf.DataDir, func(c *Config) {
		c.Recovery.ClientGrace = time.Hour
		c.Drivers = map[string]participant.Driver{ledger.Kind: ledger.Driver}
	})
	tx, err := txn.ParseID(id)
	if err != nil {
		t.Fatal(err)
	}
	if info, err := again.Get(t.Context(), tx); err != nil || info.State != txn.Committed {
		t.Errorf("%v, %v; want that it is finished", info.State, err)
	}
}
