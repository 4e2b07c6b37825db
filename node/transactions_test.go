package node

import (
	"context"
	"errors"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/txmgr/txmgr/internal/random"
	"github.com/txmgr/txmgr/participant"
	"github.com/txmgr/txmgr/participant/ledger"
	"github.com/txmgr/txmgr/txn"
	"github.com/txmgr/txmgr/txn/admin"
)

// withLedgers opens a node with two registered ledgers and gives their
// application sides.
func withLedgers(t *testing.T, change ...func(*Config)) (n *Node, bank, stock *ledger.Ledger) {
	t.Helper()
	n = open(t, t.TempDir(), append(change, func(c *Config) {
		c.Drivers = map[string]participant.Driver{ledger.Kind: ledger.Driver}
	})...)
	ledgers := make(map[string]*ledger.Ledger)
	for _, name := range []string{"bank", "stock"} {
		path := filepath.Join(t.TempDir(), name)
		ledgers[name] = ledger.New(name, path)
		if _, err := ledgers[name].Local(t.Context(), "set a 100"); err != nil {
			t.Fatal(err)
		}
		p := admin.Participant{Name: name, Kind: ledger.Kind, Settings: map[string]string{"path": path}}
		if err := n.Admin().AddParticipant(t.Context(), p, "", ""); err != nil {
			t.Fatal(err)
		}
		if err := n.Admin().TestParticipant(t.Context(), name); err != nil {
			t.Fatal(err)
		}
	}
	return n, ledgers["bank"], ledgers["stock"]
}

func TestTransferBetweenLedgers(t *testing.T) {
	n, bank, stock := withLedgers(t)
	ctx := t.Context()
	err := txn.Run(ctx, n, txn.Options{Name: "transfer"}, func(ctx context.Context, tx *txn.Tx) error {
		return errors.Join(bank.Add(ctx, tx, "a", -10), stock.Add(ctx, tx, "a", 10))
	})
	if err != nil {
		t.Fatal(err)
	}
	err = txn.Run(ctx, n, txn.Options{}, func(ctx context.Context, tx *txn.Tx) error {
		return errors.Join(bank.Add(ctx, tx, "a", 10), stock.Add(ctx, tx, "a", -1000))
	})
	if !errors.Is(err, txn.ErrRolledBack) {
		t.Errorf("a transfer that a ledger refuses: %v", err)
	}
	for l, want := range map[*ledger.Ledger]int64{bank: 90, stock: 110} {
		if b, err := l.Balances(ctx); err != nil || b["a"] != want {
			t.Errorf("balances %v, %v; want %d", b, err, want)
		}
	}
	if f, err := n.Admin().Scan(ctx, "", false); err != nil || len(f) != 0 {
		t.Errorf("scan found %+v, %v", f, err)
	}
}

// TestAbandonedBranchIsRolledBack: it is prepared, and then the application is gone.
func TestAbandonedBranchIsRolledBack(t *testing.T) {
	n, bank, _ := withLedgers(t)
	ctx := t.Context()
	tx, err := txn.Start(ctx, n, txn.Options{Timeout: 300 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	if err := bank.Add(ctx, tx, "a", -10); err != nil {
		t.Fatal(err)
	}
	info, err := n.Wait(ctx, tx.ID(), txn.UntilFinished)
	if err != nil || info.Cause != txn.CauseTimeout || info.Branches[0].State != txn.BranchRolledBack {
		t.Errorf("%+v, %v", info, err)
	}
	if err := tx.Commit(ctx); !errors.Is(err, txn.ErrRolledBack) {
		t.Errorf("commit after the deadline: %v", err)
	}
}

func TestListAndWatch(t *testing.T) {
	n, _, _ := withLedgers(t)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	seen := make(chan admin.Event, 100)
	ready := make(chan struct{})
	go func() {
		defer close(seen)
		close(ready)
		for e, err := range n.Watch(ctx, admin.Filter{Labels: map[string]string{"kind": "big"}}) {
			if err != nil {
				t.Error(err)
			}
			seen <- e
		}
	}()
	<-ready
	var ids []txn.ID
	for i := range 10 {
		o := txn.Options{Name: "n", Timeout: time.Duration(i+1) * time.Minute, Labels: map[string]string{"kind": "small"}}
		if i == 7 {
			o.Labels["kind"] = "big"
			o.Branches = []txn.Enlistment{{Participant: "bank"}}
		}
		b, err := n.Begin(ctx, o)
		if err != nil {
			t.Fatal(err)
		}
		ids = append(ids, b.ID)
	}
	// The watcher may have come after the begin: the rollback it must see.
	if _, err := n.Rollback(ctx, ids[7], "enough"); err != nil {
		t.Fatal(err)
	}
	for e := range seen {
		if e.ID != ids[7] {
			t.Fatalf("an event that the filter excludes: %+v", e)
		}
		if e.State == txn.RolledBack {
			cancel()
		}
	}
	for _, c := range []struct {
		f    admin.Filter
		want int
	}{
		{admin.Filter{}, 10},
		{admin.Filter{Limit: 3}, 3},
		{admin.Filter{States: []txn.State{txn.Active}}, 9},
		{admin.Filter{Participant: "bank"}, 1},
		{admin.Filter{Participant: "stock"}, 0},
		{admin.Filter{Labels: map[string]string{"kind": "big"}}, 1},
		{admin.Filter{Prefix: ids[2].String()}, 1},
		{admin.Filter{ExpiresWithin: 150 * time.Second}, 2},
		{admin.Filter{OlderThan: time.Hour}, 0},
	} {
		got, err := n.List(t.Context(), c.f)
		if err != nil || len(got) != c.want {
			t.Errorf("%+v: %d transactions, %v; want %d", c.f, len(got), err, c.want)
		}
	}
	if g, err := n.Admin().DeadlineGroups(t.Context(), admin.DeadlineGroupRange{}); err != nil || len(g.Groups) != 9 {
		t.Errorf("%d groups, %v; want 9", len(g.Groups), err)
	}
}

func TestBadCallsChangeNothing(t *testing.T) {
	n, _, _ := withLedgers(t, func(c *Config) { c.MaxOpen = 3 })
	ctx := t.Context()
	b, err := n.Begin(ctx, txn.Options{Branches: []txn.Enlistment{{Participant: "bank"}}})
	if err != nil {
		t.Fatal(err)
	}
	other := random.TransactionID()
	calls := map[string]struct {
		call func() error
		want error
	}{
		"get of an unknown id":    {func() error { _, err := n.Get(ctx, other); return err }, txn.ErrNotFound},
		"commit of an unknown id": {func() error { _, err := n.Commit(ctx, other, txn.CommitRequest{}); return err }, txn.ErrNotFound},
		"commit of the zero id":   {func() error { _, err := n.Commit(ctx, txn.ID{}, txn.CommitRequest{}); return err }, txn.ErrInvalid},
		"commit without its vote": {func() error { _, err := n.Commit(ctx, b.ID, txn.CommitRequest{}); return err }, txn.ErrConflict},
		"begin again, otherwise":  {func() error { _, err := n.Begin(ctx, txn.Options{ID: b.ID}); return err }, txn.ErrConflict},
		"begin nowhere": {func() error {
			_, err := n.Begin(ctx, txn.Options{Branches: []txn.Enlistment{{Participant: "x"}}})
			return err
		}, txn.ErrNotFound},
		"a name too long": {func() error { _, err := n.Begin(ctx, txn.Options{Name: strings.Repeat("n", 129)}); return err }, txn.ErrInvalid},
		"100,000 branches": {func() error {
			_, err := n.Begin(ctx, txn.Options{Branches: make([]txn.Enlistment, 100_000)})
			return err
		}, txn.ErrInvalid},
		"enlist nowhere": {func() error { _, err := n.Enlist(ctx, b.ID, txn.Enlistment{Participant: "x"}); return err }, txn.ErrNotFound},
		"done before the decision": {func() error {
			return n.ReportCompletion(ctx, b.ID, txn.CompletionReport{Branch: 1, State: txn.BranchCommitted})
		}, txn.ErrConflict},
		"remove what is used": {func() error { return n.Admin().RemoveParticipant(ctx, "bank", "", "") }, txn.ErrConflict},
		"remove nobody":       {func() error { return n.Admin().RemoveParticipant(ctx, "x", "", "") }, txn.ErrNotFound},
		"add an unknown kind": {func() error {
			return n.Admin().AddParticipant(ctx, admin.Participant{Name: "y", Kind: "oracle"}, "", "")
		}, txn.ErrInvalid},
		"test nobody": {func() error { return n.Admin().TestParticipant(ctx, "x") }, txn.ErrNotFound},
		"scan nobody": {func() error { _, err := n.Admin().Scan(ctx, "x", false); return err }, txn.ErrNotFound},
	}
	for name, c := range calls {
		if err := c.call(); !errors.Is(err, c.want) {
			t.Errorf("%s: %v; want %v", name, err, c.want)
		}
	}
	info, err := n.Get(ctx, b.ID)
	if err != nil || info.State != txn.Active || len(info.Branches) != 1 || info.Branches[0].Vote != 0 {
		t.Errorf("after all that: %+v, %v", info, err)
	}
	for range 2 {
		if _, err := n.Begin(ctx, txn.Options{}); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := n.Begin(ctx, txn.Options{}); !errors.Is(err, txn.ErrUnavailable) {
		t.Errorf("one more than MaxOpen: %v", err)
	}
}

func TestEverythingMayBeRepeated(t *testing.T) {
	n, _, _ := withLedgers(t)
	ctx := t.Context()
	o := txn.Options{ID: random.TransactionID(), Timeout: time.Minute, Branches: []txn.Enlistment{{Participant: "bank"}}}
	first, err := n.Begin(ctx, o)
	if err != nil {
		t.Fatal(err)
	}
	again, err := n.Begin(ctx, o)
	if err != nil || again.ExpiryTick != first.ExpiryTick || again.Branches[0] != first.Branches[0] {
		t.Errorf("begin: %+v, then %+v, %v", first, again, err)
	}
	for range 2 {
		b, err := n.Enlist(ctx, o.ID, txn.Enlistment{Participant: "stock"})
		if err != nil || b.ID != 2 {
			t.Errorf("enlist: %+v, %v", b, err)
		}
	}
	votes := txn.CommitRequest{ClientCompletes: true, Votes: []txn.BranchVote{{Branch: 1, Vote: txn.VoteReadOnly}, {Branch: 2, Vote: txn.VotePrepared}}}
	for range 2 {
		if got, err := n.Commit(ctx, o.ID, votes); err != nil || got.State != txn.Committing {
			t.Errorf("commit: %+v, %v", got, err)
		}
	}
	for range 2 {
		if err := n.ReportCompletion(ctx, o.ID, txn.CompletionReport{Branch: 2, State: txn.BranchCommitted}); err != nil {
			t.Errorf("done: %v", err)
		}
	}
	if info, err := n.Get(ctx, o.ID); err != nil || info.State != txn.Committed {
		t.Errorf("%v, %v", info.State, err)
	}
}
