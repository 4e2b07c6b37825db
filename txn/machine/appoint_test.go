package machine

import (
	"errors"
	"testing"

	"github.com/txmgr/txmgr/timeout/survival"
	"github.com/txmgr/txmgr/txn"
)

// TestAppointedAtItsDeadline: whatever would end an active transaction does not decide one whose branch is appointed, but has the
// end of the branch found out, at once; that end decides, also when it comes from a state that was restored.
func TestAppointedAtItsDeadline(t *testing.T) {
	for name, c := range map[string]struct {
		entry Entry
		cause txn.Cause
	}{
		"timeout":     {Entry{Tick: 10}, txn.CauseTimeout},
		"a rollback":  {Entry{Commands: []Command{undo}}, txn.CauseClient},
		"an operator": {Entry{Commands: []Command{said(0, txn.BranchRolledBack)}}, txn.CauseOperator},
	} {
		t.Run(name, func(t *testing.T) {
			for _, end := range []txn.BranchState{txn.BranchCommitted, txn.BranchRolledBack} {
				m := bootstrapped(t, "bank")
				m.Apply(Entry{Commands: []Command{decides}})
				if n := m.Counts(); n.Undecided != 1 || n.Delegated != 0 {
					t.Errorf("appointed: %+v", n)
				}
				fx := m.Apply(c.entry)
				o, _ := m.Lookup(one)
				if o.State != txn.Preparing || o.Cause != c.cause || len(fx.Pending) != 1 || len(fx.DeferToClient) != 0 {
					t.Fatalf("%+v, effects %+v: the deadline decided, or recovery was not asked at once", o, fx)
				}
				m = restored(t, m)
				if r := m.Apply(Entry{Tick: 1000, Commands: []Command{ack1(end)}}).Results[0]; r.Code != OK || r.State.Commits() != (end == txn.BranchCommitted) {
					t.Errorf("%v: %+v", end, r)
				}
				got, _ := m.Get(one)
				if end == txn.BranchCommitted && (got.Cause != 0 || got.Reason != "") || end == txn.BranchRolledBack && got.Cause != c.cause {
					t.Errorf("%v: %+v", end, got)
				}
				if err := m.CheckInvariants(); err != nil {
					t.Error(err)
				}
			}
		})
	}
}

// TestAppointedInASnapshot: it is active, with its deadline and the one branch that decides.
func TestAppointedInASnapshot(t *testing.T) {
	m := bootstrapped(t, "bank")
	m.Apply(Entry{Commands: []Command{decides}})
	m = restored(t, m)
	if got, _ := m.Get(one); !got.Appointed() || got.Delegated() {
		t.Errorf("%+v", got)
	}
	if next, ok := m.Next(); !ok || next != decides.Expiry {
		t.Errorf("the next deadline is at tick %d, %v", next, ok)
	}
}

// TestAnOperatorStatesTheEnd: when the participant of a branch that decides is gone for good, an operator says how the branch
// ended. That is the decision, and never without a heuristic outcome until that is forgotten or proved.
func TestAnOperatorStatesTheEnd(t *testing.T) {
	for name, c := range map[string]struct {
		make  []Command
		tick  survival.Tick
		end   txn.BranchState
		state txn.State
		cause txn.Cause
	}{
		"at the deadline, committed":       {[]Command{decides}, 10, txn.BranchCommitted, txn.Committed, 0},
		"at the deadline, rolled back":     {[]Command{decides}, 10, txn.BranchRolledBack, txn.RolledBack, txn.CauseTimeout},
		"after a rollback, committed":      {[]Command{decides, undo}, 0, txn.BranchCommitted, txn.Committed, 0},
		"after a rollback, rolled back":    {[]Command{decides, undo}, 0, txn.BranchRolledBack, txn.RolledBack, txn.CauseClient},
		"asked for in the same words":      {[]Command{decides, said(0, txn.BranchRolledBack)}, 0, txn.BranchRolledBack, txn.RolledBack, txn.CauseOperator},
		"ended by hand, rolled back":       {[]Command{decides, typed1}, 0, txn.BranchRolledBack, txn.RolledBack, txn.CauseVoteNo},
		"delegated by a call, committed":   {[]Command{sole, delegate}, 10, txn.BranchCommitted, txn.Committed, 0},
		"delegated by a call, rolled back": {[]Command{sole, delegate}, 10, txn.BranchRolledBack, txn.RolledBack, txn.CauseOperator},
		"ended by hand later, rolled back": {[]Command{sole, delegate, typed1}, 10, txn.BranchRolledBack, txn.RolledBack, txn.CauseOperator},
	} {
		t.Run(name, func(t *testing.T) {
			m := (scenario{make: c.make}).build(t)
			m.Apply(Entry{Tick: c.tick})
			word := stated(1, c.end)
			do(t, m, word, word)
			if err := m.CheckInvariants(); err != nil {
				t.Error(err)
			}
			m = copied(t, m)
			do(t, m, word)
			x, _ := m.Get(one)
			if x.State != c.state || x.Cause != c.cause || x.Heuristic != txn.HeuristicHazard || x.Branches[0].Detail != c.end.String()+", said by ann: looked" {
				t.Errorf("%+v", x)
			}
			if n := m.Counts(); n.Undecided != 0 || n.Delegated != 0 || n.Finished != 1 || n.Heuristics != 1 || m.UnfinishedBranches("bank") != 0 {
				t.Errorf("%+v, %d unfinished branches", n, m.UnfinishedBranches("bank"))
			}
			if a := m.Audit()[len(m.Audit())-1]; a.Action != ActionResolve || a.By != "ann" || a.Outcome != c.end {
				t.Errorf("%+v", a)
			}
			r := m.Apply(Entry{Commands: []Command{Commit{ID: one}}}).Results[0]
			if err := r.ToError("commit", one); c.state == txn.RolledBack && errors.Is(err, txn.ErrRolledBack) {
				t.Errorf("a caller is told that surely nothing was applied: %v", err)
			}
			do(t, m, Forget{ID: one, By: "ann", Reason: "repaired"}, RemoveParticipant{"bank"})
		})
	}
}

// TestTheTrueEndAfterAStatement: a proof that agrees takes the heuristic outcome away; one that does not replaces it. A mere report of
// the other end is refused, as for any decided transaction.
func TestTheTrueEndAfterAStatement(t *testing.T) {
	for name, c := range map[string]struct {
		word, proof Command
		code        Code
		heuristic   txn.Heuristic
	}{
		"it had committed":          {stated(1, txn.BranchCommitted), ack1(txn.BranchCommitted), OK, 0},
		"it had not":                {stated(1, txn.BranchRolledBack), ack1(txn.BranchRolledBack), OK, 0},
		"it had committed, but":     {stated(1, txn.BranchRolledBack), ReportHeuristic{ID: one, Branch: 1, Heuristic: txn.HeuristicCommit}, OK, txn.HeuristicCommit},
		"it had not, but":           {stated(1, txn.BranchCommitted), ReportHeuristic{ID: one, Branch: 1, Heuristic: txn.HeuristicRollback}, OK, txn.HeuristicRollback},
		"a report of another end":   {stated(1, txn.BranchRolledBack), ack1(txn.BranchCommitted), BadCompletion, txn.HeuristicHazard},
		"it is still not known":     {stated(1, txn.BranchCommitted), ReportHeuristic{ID: one, Branch: 1, Heuristic: txn.HeuristicHazard}, OK, txn.HeuristicHazard},
		"another operator says so":  {stated(1, txn.BranchCommitted), Resolve{ID: one, Outcome: txn.BranchCommitted, By: "bob", Reason: "saw it"}, OK, 0},
		"another operator says not": {stated(1, txn.BranchCommitted), Resolve{ID: one, Outcome: txn.BranchRolledBack, By: "bob", Reason: "saw it"}, OK, txn.HeuristicRollback},
	} {
		m := (scenario{make: []Command{decides, undo, c.word}}).build(t)
		was, _ := m.Lookup(one)
		r := m.Apply(Entry{Commands: []Command{c.proof}}).Results[0]
		if o, _ := m.Lookup(one); r.Code != c.code || o.Heuristic != c.heuristic || o.State != was.State {
			t.Errorf("%s: %s, %+v; it was %+v", name, codeNames[r.Code], o, was)
		}
		if err := m.CheckInvariants(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestNoStatementBeforeTheTimeIsOver: the application may still be committing the branch; and a request for a rollback is never taken for
// a statement, also when the deadline passed meanwhile.
func TestNoStatementBeforeTheTimeIsOver(t *testing.T) {
	asked := said(0, txn.BranchRolledBack)
	asked.Undecided = true
	both := stated(1, txn.BranchRolledBack)
	both.Undecided = true
	for name, c := range map[string]struct {
		make []Command
		tick survival.Tick
		word Resolve
		code Code
	}{
		"active":                  {[]Command{decides}, 9, stated(1, txn.BranchRolledBack), Undecided},
		"delegated":               {[]Command{sole, delegate}, 9, stated(1, txn.BranchRolledBack), Delegated},
		"a request, timed out":    {[]Command{decides}, 10, asked, Delegated},
		"a request, an old entry": {[]Command{decides}, 10, said(1, txn.BranchCommitted), Delegated},
		"both":                    {[]Command{decides}, 10, both, Malformed},
	} {
		m := (scenario{make: c.make, tick: c.tick}).build(t)
		r := m.Apply(Entry{Commands: []Command{c.word}}).Results[0]
		if o, _ := m.Lookup(one); r.Code != c.code || o.State.Decided() {
			t.Errorf("%s: %s, %+v", name, codeNames[r.Code], o)
		}
	}
}
