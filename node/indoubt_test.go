package node

import (
	"context"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/txmgr/txmgr/internal/random"
	"github.com/txmgr/txmgr/internal/waittest"
	"github.com/txmgr/txmgr/participant"
	"github.com/txmgr/txmgr/participant/ledger"
	"github.com/txmgr/txmgr/txn"
	"github.com/txmgr/txmgr/txn/admin"
)

// order commits a transaction with a prepared branch at each of the named participants.
func order(t *testing.T, n *Node, desks participantMap, names ...string) txn.BeginResult {
	t.Helper()
	b := beginAt(t, n, time.Minute, names...)
	for i, name := range names {
		desks[name].(*fakeParticipant).prepare(b.Branches[i].XID)
	}
	if _, err := n.Commit(context.Background(), b.ID, txn.CommitRequest{Votes: prepared(len(names))}); err != nil {
		t.Fatal(err)
	}
	return b
}

// makeHeuristic commits a transaction whose second branch was rolled back by hand.
func makeHeuristic(t *testing.T, n *Node, desks participantMap) txn.BeginResult {
	t.Helper()
	b := beginAt(t, n, time.Minute, "bank", "stock")
	desks["bank"].(*fakeParticipant).prepare(b.Branches[0].XID)
	desks["stock"].(*fakeParticipant).byHand(b.Branches[1].XID, participant.RolledBack)
	if _, err := n.Commit(context.Background(), b.ID, txn.CommitRequest{Votes: prepared(2)}); err != nil {
		t.Fatal(err)
	}
	if info := finished(t, n, b.ID); info.State != txn.Committed || info.Heuristic != txn.HeuristicMixed || info.Branches[1].Heuristic != txn.HeuristicRollback || info.Branches[1].Detail != "the desk's own book" {
		t.Fatalf("%+v", info)
	}
	return b
}

// explained is Explain without the parts that differ between calls.
func explained(t *testing.T, n *Node, id txn.ID) admin.Explanation {
	t.Helper()
	e, err := n.Admin().Explain(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	for i := range e.Branches {
		e.Branches[i].Attempts, e.Branches[i].EarlierAttempts = nil, 0 // known to one leader only
	}
	return e
}

// TestInDoubtSurvivesRestarts: heuristic outcomes, their explanations and the operators' actions survive
// restarts and snapshots, until an operator forgets the outcomes.
func TestInDoubtSurvivesRestarts(t *testing.T) {
	dir, desks := t.TempDir(), participantMap{"bank": newFakeParticipant(), "stock": newFakeParticipant()}
	n, err := tryOpen(t, dir, with(desks))
	if err != nil {
		t.Fatal(err)
	}
	ctx := t.Context()
	b := makeHeuristic(t, n, desks)
	open := beginAt(t, n, time.Hour, "bank")
	if _, err := n.Admin().Resolve(ctx, open.ID, admin.Resolution{Reason: "the customer called", By: "alice"}); err != nil {
		t.Fatal(err)
	}
	finished(t, n, open.ID)

	doubts, err := n.Admin().InDoubts(ctx)
	const why = "b2 at stock ended rolled-back although the decision was to commit (the desk's own book)"
	if err != nil || len(doubts) != 1 || doubts[0].ID != b.ID || doubts[0].Why != why || doubts[0].Since.IsZero() {
		t.Fatalf("%+v, %v", doubts, err)
	}
	before := explained(t, n, b.ID)
	if c := choice(before, "forget"); !c.Allowed {
		t.Errorf("%+v", c)
	}
	for _, snapshot := range []bool{false, true} {
		if snapshot {
			if err := n.Snapshot(); err != nil {
				t.Fatal(err)
			}
		}
		if err := n.Close(); err != nil {
			t.Fatal(err)
		}
		if n, err = tryOpen(t, dir, with(desks)); err != nil {
			t.Fatal(err)
		}
		again, err := n.Admin().InDoubts(ctx)
		if diff := cmp.Diff(doubts, again); err != nil || diff != "" {
			t.Errorf("doubts after a restart, snapshot %v: %v\n%s", snapshot, err, diff)
		}
		if diff := cmp.Diff(before, explained(t, n, b.ID)); diff != "" {
			t.Errorf("explanation after a restart, snapshot %v:\n%s", snapshot, diff)
		}
	}
	defer func() {
		if err := n.Close(); err != nil {
			t.Error(err)
		}
	}()
	if o, err := n.Admin().Forget(ctx, b.ID, "bob", "booked manually"); err != nil || o.Heuristic != 0 {
		t.Fatalf("%+v, %v", o, err)
	}
	if ds, err := n.Admin().InDoubts(ctx); err != nil || len(ds) != 0 {
		t.Errorf("after the heuristic outcome was forgotten: %+v, %v", ds, err)
	}
	audit, err := n.Admin().Audit(ctx, admin.AuditFilter{})
	var did []string
	for _, a := range audit {
		did = append(did, strings.TrimSpace(a.Action+" "+a.By+" "+a.Reason))
		if a.Index == 0 || a.Time.IsZero() {
			t.Errorf("%+v", a)
		}
	}
	want := []string{"participant-add", "participant-add", "resolve alice the customer called", "forget bob booked manually"}
	if diff := cmp.Diff(want, did); err != nil || diff != "" {
		t.Errorf("audit: %v\n%s", err, diff)
	}
	for _, c := range []struct {
		f    admin.AuditFilter
		want int
	}{{admin.AuditFilter{ID: b.ID}, 1}, {admin.AuditFilter{Limit: 3}, 3}, {admin.AuditFilter{Since: time.Hour}, 4}} {
		if got, err := n.Admin().Audit(ctx, c.f); err != nil || len(got) != c.want {
			t.Errorf("%+v: %d records, %v; want %d", c.f, len(got), err, c.want)
		}
	}
	n.conf.wall = func() time.Time { return time.Now().Add(2 * time.Hour) }
	if got, err := n.Admin().Audit(ctx, admin.AuditFilter{Since: time.Hour}); err != nil || len(got) != 0 {
		t.Errorf("of the last hour, two hours later: %d records, %v", len(got), err)
	}
}

// TestInDoubtAtAnUnreachableLedger: a transaction with a failed attempt is listed at once, with the
// error; one that makes progress is not.
func TestInDoubtAtAnUnreachableLedger(t *testing.T) {
	n, bank, stock := withLedgers(t)
	ctx := t.Context()
	if err := txn.Run(ctx, n, txn.Options{}, func(ctx context.Context, tx *txn.Tx) error { return bank.Add(ctx, tx, "a", -1) }); err != nil {
		t.Fatal(err)
	}
	if ds, err := n.Admin().InDoubts(ctx); err != nil || len(ds) != 0 {
		t.Errorf("nothing is wrong: %+v, %v", ds, err)
	}
	// The ledger's file has a path that cannot exist.
	p := admin.Participant{Name: "stock", Kind: ledger.Kind, Settings: map[string]string{"path": "/dev/null/stock"}}
	if err := n.Admin().AddParticipant(ctx, p, "", ""); err != nil {
		t.Fatal(err)
	}
	b, err := n.Begin(ctx, txn.Options{Branches: []txn.Enlistment{{Participant: "stock"}}})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := n.Rollback(ctx, b.ID, "enough"); err != nil {
		t.Fatal(err)
	}
	var ds []admin.InDoubt
	waittest.Until(t, "the doubt", func() bool {
		ds, err = n.Admin().InDoubts(ctx)
		return err == nil && len(ds) == 1
	})
	if d := ds[0]; d.ID != b.ID || !strings.HasPrefix(d.Why, "stock: ") || !strings.Contains(d.Why, "not a directory (attempt ") {
		t.Errorf("%+v", d)
	}
	e, err := n.Admin().Explain(ctx, b.ID)
	if err != nil || e.Branches[0].Error == "" || len(e.Branches[0].Attempts) == 0 || !e.Branches[0].Attempts[0].Failed || e.Branches[0].Attempts[0].Call != "rollback" {
		t.Errorf("%+v, %v", e.Branches, err)
	}
	if c := choice(e, "rollback"); !c.Allowed {
		t.Errorf("%+v", c)
	}
	// The participant cannot be asked, so an operator may resolve the branch.
	if o, err := n.Admin().Resolve(ctx, b.ID, admin.Resolution{Reason: "the disk is gone for good"}); err != nil || o.State != txn.RolledBack || o.Heuristic != 0 {
		t.Errorf("%+v, %v", o, err)
	}
	if b, err := stock.Balances(ctx); err != nil || b["a"] != 100 {
		t.Errorf("%v, %v", b, err)
	}
}

func TestInDoubtAfterFiveSeconds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		bank := hangingParticipant{newFakeParticipant()}
		n := open(t, t.TempDir(), slow, with(participantMap{"bank": bank}), func(c *Config) { c.Recovery.CallTimeout = time.Hour })
		b := beginAt(t, n, time.Minute, "bank")
		if _, err := n.Commit(t.Context(), b.ID, txn.CommitRequest{Votes: prepared(1)}); err != nil {
			t.Fatal(err)
		}
		pass(4 * time.Second)
		if ds, err := n.Admin().InDoubts(t.Context()); err != nil || len(ds) != 0 {
			t.Errorf("after 4s: %+v, %v", ds, err)
		}
		pass(2 * time.Second)
		ds, err := n.Admin().InDoubts(t.Context())
		if err != nil || len(ds) != 1 || ds[0].Why != "b1 at bank has not come to its end yet" {
			t.Errorf("after 6s: %+v, %v", ds, err)
		}
		start := time.Now()
		e, err := n.Admin().Explain(t.Context(), b.ID)
		if took := time.Since(start); err != nil || took != 5*time.Second || e.Branches[0].Error != "no answer within 5s" {
			t.Errorf("explained after %v: %+v, %v", took, e.Branches, err)
		}
	})
}

// TestInDoubtAfterAFailure: the transaction with a failed call is listed at once, and no other.
func TestInDoubtAfterAFailure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		bank := newFakeParticipant()
		bank.outage(errRefused)
		n := open(t, t.TempDir(), slow, with(participantMap{"bank": bank, "stock": hangingParticipant{newFakeParticipant()}}))
		at := make(map[string]txn.ID)
		for _, name := range []string{"bank", "stock"} {
			b := beginAt(t, n, time.Minute, name)
			if _, err := n.Commit(t.Context(), b.ID, txn.CommitRequest{Votes: prepared(1)}); err != nil {
				t.Fatal(err)
			}
			at[name] = b.ID
		}
		pass(time.Second)
		if ds, err := n.Admin().InDoubts(t.Context()); err != nil || len(ds) != 1 || ds[0].ID != at["bank"] {
			t.Errorf("%+v, %v", ds, err)
		}
	})
}

// hangingParticipant never answers the coordinator.
type hangingParticipant struct{ *fakeParticipant }

func (hangingParticipant) Commit(ctx context.Context, _ participant.Branch) (participant.Result, error) {
	<-ctx.Done()
	return participant.Result{}, ctx.Err()
}

func (hangingParticipant) Inspect(ctx context.Context, _ participant.Branch) (participant.BranchReport, error) {
	<-ctx.Done()
	return participant.BranchReport{}, ctx.Err()
}

func TestResolve(t *testing.T) {
	desks := participantMap{"bank": newFakeParticipant(), "stock": newFakeParticipant()}
	n := open(t, t.TempDir(), with(desks), func(c *Config) { c.Recovery.BackoffBase, c.Recovery.BackoffMax = time.Hour, time.Hour })
	ctx := t.Context()
	stock := desks["stock"].(*fakeParticipant)
	stuck := func() txn.BeginResult {
		stock.outage(errRefused)
		b := order(t, n, desks, "bank", "stock")
		waittest.Until(t, "an attempt", func() bool {
			info, err := n.Get(ctx, b.ID)
			return err == nil && info.Branches[1].Attempts > 0 && info.Branches[0].State == txn.BranchCommitted
		})
		return b
	}
	yes, no := admin.Resolution{Commit: true, Reason: "seen it"}, admin.Resolution{Reason: "seen it"}

	t.Run("not decided", func(t *testing.T) {
		b := beginAt(t, n, time.Minute, "bank")
		_, err := n.Admin().Resolve(ctx, b.ID, admin.Resolution{})
		wantErr(t, "without a reason", err, txn.ErrInvalid, "no reason")
		_, err = n.Admin().Resolve(ctx, b.ID, admin.Resolution{Reason: strings.Repeat("x", txn.MaxReason+1)})
		wantErr(t, "with a long reason", err, txn.ErrInvalid)
		_, err = n.Admin().Resolve(ctx, b.ID, yes)
		wantErr(t, "commit", err, txn.ErrConflict, "only votes can commit")
		if o, err := n.Admin().Resolve(ctx, b.ID, no); err != nil || o.Cause != txn.CauseOperator {
			t.Errorf("rollback: %+v, %v", o, err)
		}
		finished(t, n, b.ID)
		if e := explained(t, n, b.ID); !strings.Contains(strings.Join(e.Summary, "\n"), "an operator requested it: seen it") {
			t.Errorf("%q", e.Summary)
		}
		_, err = n.Admin().Resolve(ctx, b.ID, admin.Resolution{Reason: "again"})
		wantErr(t, "what has ended as decided", err, txn.ErrConflict, "nothing is in doubt")
	})
	t.Run("prepared there", func(t *testing.T) {
		b := stuck()
		stock.outage(nil)
		_, err := n.Admin().Resolve(ctx, b.ID, yes)
		wantErr(t, "resolve", err, txn.ErrConflict, "b2 at stock is prepared there", "a retry")
		if c := choice(explained(t, n, b.ID), "commit"); c.Allowed || !strings.Contains(c.Why, "is prepared there") {
			t.Errorf("%+v", c)
		}
		if err := n.Admin().Retry(ctx, b.ID); err != nil {
			t.Error(err)
		}
		if info := finished(t, n, b.ID); info.Heuristic != 0 {
			t.Errorf("%+v", info)
		}
	})
	t.Run("proof there", func(t *testing.T) {
		b := stuck()
		stock.byHand(b.Branches[1].XID, participant.RolledBack)
		stock.outage(nil)
		_, err := n.Admin().Resolve(ctx, b.ID, yes)
		wantErr(t, "resolve", err, txn.ErrConflict, "there is proof that it ended rolled-back")
		if err := n.Admin().Retry(ctx, txn.ID{}); err != nil {
			t.Error(err)
		}
		if info := finished(t, n, b.ID); info.Heuristic != txn.HeuristicMixed {
			t.Errorf("%+v", info)
		}
		_, err = n.Admin().Resolve(ctx, b.ID, yes)
		wantErr(t, "what is proved", err, txn.ErrConflict, "nothing is in doubt")
	})
	t.Run("away, ended as decided", func(t *testing.T) {
		b := stuck()
		if o, err := n.Admin().Resolve(ctx, b.ID, yes); err != nil || o.State != txn.Committed || o.Heuristic != 0 {
			t.Errorf("%+v, %v", o, err)
		}
	})
	t.Run("away, ended otherwise", func(t *testing.T) {
		b := stuck()
		_, err := n.Admin().Forget(ctx, b.ID, "bob", "no matter")
		wantErr(t, "forget before the end", err, txn.ErrConflict, "have to be finished first")
		if o, err := n.Admin().Resolve(ctx, b.ID, admin.Resolution{Branch: 2, Reason: "seen it", By: "al\nice"}); err != nil || o.State != txn.Committed || o.Heuristic != txn.HeuristicMixed {
			t.Errorf("%+v, %v", o, err)
		}
		if info, err := n.Get(ctx, b.ID); err != nil || info.Branches[1].Detail != "said by al ice: seen it" {
			t.Errorf("%+v, %v", info, err)
		}
		_, err = n.Admin().Forget(ctx, b.ID, "bob", " ")
		wantErr(t, "forget without a reason", err, txn.ErrInvalid)
	})
	t.Run("nobody knows", func(t *testing.T) {
		b := stuck()
		stock.byHand(b.Branches[1].XID, participant.Unknown)
		stock.outage(nil)
		if err := n.Admin().Retry(ctx, b.ID); err != nil {
			t.Error(err)
		}
		if info := finished(t, n, b.ID); info.Heuristic != txn.HeuristicHazard {
			t.Errorf("%+v", info)
		}
		wantErr(t, "retry", n.Admin().Retry(ctx, b.ID), txn.ErrConflict, "no participant knows more")
		if o, err := n.Admin().Resolve(ctx, b.ID, yes); err != nil || o.Heuristic != 0 {
			t.Errorf("%+v, %v", o, err)
		}
	})
	for name, call := range map[string]func(txn.ID) error{
		"resolve": func(id txn.ID) error { _, err := n.Admin().Resolve(ctx, id, no); return err },
		"forget":  func(id txn.ID) error { _, err := n.Admin().Forget(ctx, id, "", "x"); return err },
		"explain": func(id txn.ID) error { _, err := n.Admin().Explain(ctx, id); return err },
		"retry":   func(id txn.ID) error { return n.Admin().Retry(ctx, id) },
	} {
		wantErr(t, name+" of an unknown id", call(random.TransactionID()), txn.ErrNotFound)
	}
}

// TestExplainInEveryState: Explain of transactions that are active, preparing, timed out, and
// finished as decided.
func TestExplainInEveryState(t *testing.T) {
	desks := participantMap{"bank": newFakeParticipant(), "shop": hangs()}
	n := open(t, t.TempDir(), with(desks))
	ctx := t.Context()
	trace := func(id txn.ID) string { return strings.Join(explained(t, n, id).Summary, "\n") }
	check := func(what string, id txn.ID, want ...string) {
		t.Helper()
		s := trace(id)
		for _, w := range want {
			if !strings.Contains(s, w) {
				t.Errorf("%s: the story has no %q:\n%s", what, w, s)
			}
		}
	}
	active := beginAt(t, n, time.Minute, "bank")
	desks["bank"].(*fakeParticipant).prepare(active.Branches[0].XID)
	check("active", active.ID, `as "order", with 1m0s to be decided: until tick `, "no commit or rollback was requested yet")
	e := explained(t, n, active.ID)
	if q := e.Branches[0]; !q.Prepared || q.Detail != "in the tray" || !slices.Equal(q.Locks, []string{"the tray"}) {
		t.Errorf("%+v", q)
	}
	if !choice(e, "rollback").Allowed || choice(e, "commit").Allowed || choice(e, "retry").Allowed || choice(e, "forget").Allowed {
		t.Errorf("%+v", e.Actions)
	}

	asking := beginAt(t, n, time.Minute, "shop")
	asked, cancel := context.WithCancel(ctx)
	cancel()
	if _, err := n.Commit(asked, asking.ID, txn.CommitRequest{}); err == nil {
		t.Error("committed without a vote")
	}
	go func() { _, _ = n.Commit(context.Background(), asking.ID, txn.CommitRequest{}) }()
	waittest.Until(t, "preparing", func() bool { return strings.Contains(trace(asking.ID), "collects the votes of b1 at shop") })
	if _, err := n.Rollback(ctx, asking.ID, "changed my mind"); err != nil {
		t.Fatal(err)
	}
	finished(t, n, asking.ID)
	check("rolled back", asking.ID, "decided to roll back ", ", by entry ", "the application asked for it: changed my mind", "all branches have ended as decided")

	if _, err := n.Commit(ctx, active.ID, txn.CommitRequest{Votes: prepared(1)}); err != nil {
		t.Fatal(err)
	}
	finished(t, n, active.ID)
	check("committed", active.ID, "decided to commit ", "every branch had voted for it", "all branches have ended as decided")
	e = explained(t, n, active.ID)
	if q := e.Branches[0]; q.Prepared || q.Outcome != "committed" {
		t.Errorf("%+v", q)
	}
	for _, c := range e.Actions {
		if c.Allowed || c.Why == "" {
			t.Errorf("%+v", c)
		}
	}
	late := beginAt(t, n, 50*time.Millisecond, "bank")
	finished(t, n, late.ID)
	check("timed out", late.ID, "it was not decided within 50ms")
}

// TestInDoubtListIsBounded: of many transactions in doubt, among many that are not, the oldest are
// listed.
func TestInDoubtListIsBounded(t *testing.T) {
	desks := participantMap{"bank": newFakeParticipant()}
	n := open(t, t.TempDir(), with(desks), func(c *Config) { c.Recovery.BackoffBase, c.Recovery.BackoffMax = time.Hour, time.Hour })
	ctx := t.Context()
	desks["bank"].(*fakeParticipant).outage(errRefused)
	first := order(t, n, desks, "bank")
	errs := make(chan error)
	const callers, each = 50, 45
	for range callers {
		go func() {
			var err error
			for i := range each {
				var b txn.BeginResult
				if b, err = n.Begin(ctx, txn.Options{Branches: []txn.Enlistment{{Participant: "bank"}}}); err == nil && i%2 == 0 {
					_, err = n.Rollback(ctx, b.ID, "")
				}
				if err != nil {
					break
				}
			}
			errs <- err
		}()
	}
	for range callers {
		if err := <-errs; err != nil {
			t.Fatal(err)
		}
	}
	var ds []admin.InDoubt
	waittest.Until(t, "doubts", func() bool {
		var err error
		if ds, err = n.Admin().InDoubts(ctx); err != nil {
			t.Fatal(err)
		}
		return len(ds) == admin.MaxInDoubt
	})
	if ds[0].ID != first.ID {
		t.Errorf("the first is %v, decided %v; want %v", ds[0].ID, ds[0].Since, first.ID)
	}
	if !slices.IsSortedFunc(ds, func(a, b admin.InDoubt) int { return a.Since.Compare(b.Since) }) {
		t.Error("not the oldest first")
	}
}
