package machine

import (
	"testing"

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
