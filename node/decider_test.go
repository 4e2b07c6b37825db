package node

import (
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/txmgr/txmgr/participant"
	"github.com/txmgr/txmgr/txn"
	"github.com/txmgr/txmgr/txn/admin"
)

// offices are the participants of a transaction of which the branch at bank, b2, decides. Those of the others are prepared.
type offices struct{ stock, bank, post *fakeParticipant }

func newOffices() offices {
	return offices{newFakeParticipant(), newFakeParticipant(), newFakeParticipant()}
}

func (o offices) with() func(*Config) {
	return with(participantMap{"stock": o.stock, "bank": o.bank, "post": o.post})
}

// begin begins the transaction, as its client has by the time of its commit.
func (o offices) begin(t *testing.T, n *Node, timeout time.Duration) txn.BeginResult {
	t.Helper()
	b, err := n.Begin(t.Context(), txn.Options{Timeout: timeout, Branches: []txn.Enlistment{
		{Participant: "stock", SessionRef: "s1"}, {Participant: "bank", SessionRef: "s2", Decides: true}, {Participant: "post", SessionRef: "s3"},
	}})
	if err != nil {
		t.Fatal(err)
	}
	o.stock.prepare(b.Branches[0].XID)
	o.post.prepare(b.Branches[2].XID)
	return b
}

// untouched checks that the branches which do not decide are as their client left them.
func (o offices) untouched(t *testing.T, when string, b txn.BeginResult) {
	t.Helper()
	if !o.stock.holds(b.Branches[0].XID) || !o.post.holds(b.Branches[2].XID) || o.stock.outcomeLookups()+o.post.outcomeLookups() != 0 {
		t.Errorf("%s: another branch than the one that decides was driven", when)
	}
}

// driven checks that all branches have ended alike.
func (o offices) driven(t *testing.T, what string, b txn.BeginResult, end participant.BranchOutcome) {
	t.Helper()
	for i, p := range []*fakeParticipant{o.stock, o.bank, o.post} {
		p.mu.Lock()
		if got := p.ended[b.Branches[i].XID]; got != end || p.prepared[b.Branches[i].XID] {
			t.Errorf("%s: b%d is %v, want %v", what, i+1, got, end)
		}
		p.mu.Unlock()
	}
}

// TestCommittedDeciderIsFound: the application died after the commit that decides. The others are committed soon after the grace, also
// behind a new leader, and no session is fenced.
func TestCommittedDeciderIsFound(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, restart := range []bool{false, true} {
			o, dir := newOffices(), t.TempDir()
			n, err := tryOpen(t, dir, slow, o.with())
			if err != nil {
				t.Fatal(err)
			}
			b := o.begin(t, n, time.Hour)
			if restart {
				if err := errors.Join(n.Snapshot(), n.Close()); err != nil {
					t.Fatal(err)
				}
				n, err = tryOpen(t, dir, slow, o.with())
				if err != nil {
					t.Fatal(err)
				}
			}
			pass(20 * time.Second)
			if info, err := n.Get(t.Context(), b.ID); err != nil || info.State != txn.Active {
				t.Errorf("it is still at work: %v, %v", info.State, err)
			}
			o.untouched(t, "before the commit", b)
			o.bank.byHand(b.Branches[1].XID, participant.Committed)
			died := time.Now()
			info := finished(t, n, b.ID)
			if took := time.Since(died); took > 8*time.Second {
				t.Errorf("restart %v: ended %v after the commit", restart, took)
			}
			if info.State != txn.Committed || info.Heuristic != 0 || info.Branches[0].Vote != txn.VotePrepared || info.Branches[1].Vote != txn.VoteDelegated {
				t.Errorf("restart %v: %+v", restart, info)
			}
			o.driven(t, "found", b, participant.Committed)
			if k := o.bank.outcomeLookups(); k != 0 {
				t.Errorf("restart %v: fenced %d times", restart, k)
			}
			if s := strings.Join(explained(t, n, b.ID).Summary, "\n"); !strings.Contains(s, "b2 at bank, which decides, had committed") {
				t.Error(s)
			}
			if err := n.Close(); err != nil {
				t.Error(err)
			}
		}
	})
}

// TestOthersAreLeftAloneUntilTheDecision: whatever asks for the end of the branch that decides, the others are neither prepared, nor
// ended, nor swept before it is known, and follow it then.
func TestOthersAreLeftAloneUntilTheDecision(t *testing.T) {
	reasons := map[string]struct {
		ask   func(t *testing.T, n *Node, id txn.ID)
		cause txn.Cause
		says  string
	}{
		"deadline": {func(*testing.T, *Node, txn.ID) { pass(2 * time.Minute) }, txn.CauseTimeout, "it was not decided within 1m30s"},
		"rollback": {func(t *testing.T, n *Node, id txn.ID) {
			go func() { _, _ = n.Rollback(t.Context(), id, "enough") }()
		}, txn.CauseClient, "the application asked for it: enough"},
		"operator": {func(t *testing.T, n *Node, id txn.ID) {
			go func() { _, _ = n.Admin().Resolve(t.Context(), id, admin.Resolution{Reason: "stuck", By: "ann"}) }()
		}, txn.CauseOperator, "stuck"},
	}
	ends := map[participant.BranchOutcome]struct {
		state  txn.State
		others participant.BranchOutcome
		hazard txn.Heuristic
	}{
		0:                     {txn.RolledBack, participant.RolledBack, 0},
		participant.Committed: {txn.Committed, participant.Committed, 0},
		participant.Unknown:   {txn.RolledBack, participant.RolledBack, txn.HeuristicHazard},
	}
	for name, r := range reasons {
		for end, want := range ends {
			synctest.Test(t, func(t *testing.T) {
				name := name + ", " + end.String()
				o := newOffices()
				n := open(t, t.TempDir(), slow, o.with())
				b := o.begin(t, n, 90*time.Second)
				o.bank.outage(errRefused)
				r.ask(t, n, b.ID)
				pass(20 * time.Second)
				o.untouched(t, name, b)
				info, err := n.Get(t.Context(), b.ID)
				if err != nil || info.State != txn.Preparing || info.Cause != r.cause {
					t.Errorf("%s: %v by %v, %v", name, info.State, info.Cause, err)
				}
				e := explained(t, n, b.ID)
				if s := strings.Join(e.Summary, "\n"); !strings.Contains(s, "not decided: b2 at bank decides, and its participant is being asked how it ended: ") || !strings.Contains(s, r.says) {
					t.Errorf("%s: %s", name, s)
				}
				if !choice(e, "retry").Allowed || !choice(e, "commit").Allowed || !choice(e, "rollback").Allowed {
					t.Errorf("%s: %+v", name, e.Actions)
				}
				if ds, err := n.Admin().InDoubts(t.Context()); err != nil || len(ds) != 1 || !strings.HasPrefix(ds[0].Why, "bank: resolve outcome: connection refused (attempt ") || strings.Contains(ds[0].Why, ";") {
					t.Errorf("%s: in doubt: %+v, %v", name, ds, err)
				}
				if end != 0 {
					o.bank.byHand(b.Branches[1].XID, end)
				}
				o.bank.outage(nil)
				if err := n.Admin().Retry(t.Context(), b.ID); err != nil {
					t.Error(err)
				}
				info = finished(t, n, b.ID)
				if info.State != want.state || info.Branches[1].Heuristic != want.hazard || info.Heuristic != want.hazard || o.bank.outcomeLookups() != 1 {
					t.Errorf("%s: %v, heuristic %q, resolved %d times", name, info.State, info.Heuristic, o.bank.outcomeLookups())
				}
				if end == 0 {
					end = participant.RolledBack
				}
				o.bank.byHand(b.Branches[1].XID, want.others) // what is unknown has no end
				o.driven(t, name, b, want.others)
			})
		}
	}
}

// TestExplainWhileABranchDecides: an operator is told which branch decides, and can have it asked.
func TestExplainWhileABranchDecides(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := newOffices()
		n := open(t, t.TempDir(), slow, o.with())
		b := o.begin(t, n, time.Hour)
		e := explained(t, n, b.ID)
		if s := strings.Join(e.Summary, "\n"); !strings.Contains(s, "not decided: b2 at bank decides by its own end, and may have committed; its participant is asked for that when another branch stays prepared, and when the time is over: ") {
			t.Error(s)
		}
		for action, want := range map[string]struct {
			allowed bool
			why     string
		}{
			"retry":    {false, "it is not decided"},
			"commit":   {false, "b2 at bank decides: whether it has committed is asked of its participant alone"},
			"rollback": {true, "b2 at bank decides: this asks its participant now how it ended, and rolls back if it has not committed"},
		} {
			if a := choice(e, action); a.Allowed != want.allowed || !strings.Contains(a.Why, want.why) {
				t.Errorf("%+v", a)
			}
		}
		if ds, err := n.Admin().InDoubts(t.Context()); err != nil || len(ds) != 0 {
			t.Errorf("in doubt: %+v, %v", ds, err)
		}
		wantErr(t, "retry", n.Admin().Retry(t.Context(), b.ID), txn.ErrConflict, "nothing is to be driven before it is decided")
		if oc, err := n.Admin().Resolve(t.Context(), b.ID, admin.Resolution{Reason: "stuck", By: "ann"}); err != nil || oc.State.Commits() {
			t.Errorf("%+v, %v", oc, err)
		}
		if info := finished(t, n, b.ID); info.State != txn.RolledBack || info.Cause != txn.CauseOperator {
			t.Errorf("%v by %v", info.State, info.Cause)
		}
		o.driven(t, "by an operator", b, participant.RolledBack)
	})
}

// TestResolveOfADeciderThatIsGone: an operator states how the branch that decides ended, and that of no other; the others follow, though
// they are prepared where they are.
func TestResolveOfADeciderThatIsGone(t *testing.T) {
	for name, c := range map[string]struct {
		commit bool
		state  txn.State
		others participant.BranchOutcome
		says   string
	}{
		"committed":   {true, txn.Committed, participant.Committed, "b2 at bank, which decides, was said to have committed"},
		"rolled back": {false, txn.RolledBack, participant.RolledBack, "it was not decided within 10s"},
	} {
		synctest.Test(t, func(t *testing.T) {
			o := newOffices()
			n := open(t, t.TempDir(), slow, o.with())
			b := o.begin(t, n, 10*time.Second)
			o.bank.outage(errRefused)
			pass(20 * time.Second)
			for _, other := range []txn.BranchID{1, 3} {
				_, err := n.Admin().Resolve(t.Context(), b.ID, admin.Resolution{Branch: other, Commit: c.commit, Reason: "seen it", By: "ann"})
				wantErr(t, name+", another branch", err, txn.ErrConflict, "delegated to branch b2")
			}
			e := explained(t, n, b.ID)
			for _, a := range []string{"commit", "rollback"} {
				if a := choice(e, a); !a.Allowed || !strings.Contains(a.Why, "(b2 at bank)") || !strings.Contains(a.Why, "that is then the decision, and a heuristic outcome too") {
					t.Errorf("%s: %+v", name, a)
				}
			}
			o.untouched(t, name, b)
			oc, err := n.Admin().Resolve(t.Context(), b.ID, admin.Resolution{Commit: c.commit, Reason: "the disk is lost", By: "ann"})
			if err != nil || oc.State.Commits() != c.commit || oc.Heuristic != txn.HeuristicHazard {
				t.Errorf("%s: %+v, %v", name, oc, err)
			}
			info := finished(t, n, b.ID)
			if info.State != c.state || info.Heuristic != txn.HeuristicHazard || info.Branches[0].Heuristic != 0 || info.Branches[2].Heuristic != 0 {
				t.Errorf("%s: %+v", name, info)
			}
			o.bank.byHand(b.Branches[1].XID, c.others) // as it was stated
			o.driven(t, name, b, c.others)
			if s := strings.Join(explained(t, n, b.ID).Summary, "\n"); !strings.Contains(s, c.says) || !strings.Contains(s, "said by ann: the disk is lost") {
				t.Errorf("%s: %s", name, s)
			}
		})
	}
}

// TestResolveOfAPreparedDecider: the state was restored from a backup in which a branch is appointed that was prepared later. It is not
// told how to end, as its end would decide, until an operator states that; then it ends so.
func TestResolveOfAPreparedDecider(t *testing.T) {
	for commit, end := range map[bool]participant.BranchOutcome{true: participant.Committed, false: participant.RolledBack} {
		synctest.Test(t, func(t *testing.T) {
			o := newOffices()
			n := open(t, t.TempDir(), slow, o.with())
			b := o.begin(t, n, 10*time.Second)
			o.bank.prepare(b.Branches[1].XID)
			pass(time.Minute)
			o.untouched(t, "while it is prepared", b)
			if i, err := n.Get(t.Context(), b.ID); err != nil || i.State != txn.Preparing || !o.bank.holds(b.Branches[1].XID) {
				t.Errorf("%v, %v", i.State, err)
			}
			oc, err := n.Admin().Resolve(t.Context(), b.ID, admin.Resolution{Commit: commit, Reason: "seen it", By: "ann"})
			if err != nil || oc.State.Commits() != commit {
				t.Errorf("%+v, %v", oc, err)
			}
			pass(time.Minute)
			o.driven(t, "after the statement", b, end)
			if i := finished(t, n, b.ID); i.State.Commits() != commit {
				t.Errorf("%+v", i)
			}
		})
	}
}
