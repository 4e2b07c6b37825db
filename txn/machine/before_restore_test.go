package machine

import (
	"testing"

	"github.com/txmgr/txmgr/txn"
)

// restoredMarked is the machine as it is restored from a backup, with the marks.
func restoredMarked(t *testing.T, m *Machine) *Machine {
	t.Helper()
	s := m.Snapshot()
	defer s.Release()
	h := s.Header()
	h.Incarnation, h.RecoveryPaused = h.Incarnation+1, true
	r, err := Restore(h, withoutError(s.Sessions()), func(yield func(*Transaction, error) bool) {
		s.Transactions()(func(t *Transaction) bool { t.MarkRestored(); return yield(t, nil) })
	})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// wantMark checks transaction one, and that a replica which gets the snapshot has the same.
func wantMark(t *testing.T, m *Machine, marked bool) {
	t.Helper()
	for _, m := range []*Machine{m, restored(t, m)} {
		s := m.Snapshot()
		if got, _ := m.Get(one); got.BeforeRestore != marked || (s.BeforeRestore() == 1) != marked {
			t.Errorf("%v: marked %v, %d in all; want %v", got.State, got.BeforeRestore, s.BeforeRestore(), marked)
		}
		s.Release()
		if err := m.CheckInvariants(); err != nil {
			t.Error(err)
		}
	}
}

// TestMarkOfARestore: a transaction of the backup is marked unless it cannot have been committed later,
// and keeps the mark until it needs no more work.
func TestMarkOfARestore(t *testing.T) {
	finishAs := map[string]Command{
		"active": undo, "preparing": undo, "timed out": undo, "one tick left": undo, "active, b1 voted": undo, "active, voted": undo,
		"sole": undo, "sole, voted": undo,
		"committing": acks(txn.BranchCommitted), "committing, b1 done": acks(txn.BranchCommitted), "committing, b1 unknown": acks(txn.BranchCommitted),
		"committed, hazard": Forget{ID: one, Reason: "paid"}, "committed, b1 unknown": acks(txn.BranchCommitted),
		"delegated": ack1(txn.BranchCommitted), "delegated, time is over": ack1(txn.BranchRolledBack), "delegated, ended by hand": ack1(txn.BranchCommitted),
		"appointed": ack1(txn.BranchCommitted), "appointed, timed out": ack1(txn.BranchRolledBack), "appointed, rollback asked for": ack1(txn.BranchRolledBack),
		"appointed, ended by hand": ack1(txn.BranchCommitted), "appointed, revoked": undo, "appointed, revoked by a second": undo,
	}
	for _, w := range worlds {
		if w.held {
			continue
		}
		t.Run(w.name, func(t *testing.T) {
			m := w.build(t)
			wantMark(t, m, false)
			last, marked := finishAs[w.name]
			m = restoredMarked(t, m)
			wantMark(t, m, marked)
			m.Apply(Entry{Tick: m.Tick(), Wall: 7, Commands: []Command{ResumeRecovery{By: "ann", Reason: "compared"}}})
			wantMark(t, m, marked)
			if !marked {
				return
			}
			m.Apply(Entry{Tick: m.Tick(), Commands: []Command{Extend{one, 1, 700, m.Tick() + 700}}}) // if it is active, it gets another place
			wantMark(t, m, true)
			m = restoredMarked(t, m)
			wantMark(t, m, true)
			m.Apply(Entry{Tick: m.Tick(), Commands: []Command{last, acks(txn.BranchRolledBack), ack1(txn.BranchRolledBack)}})
			if got, _ := m.Get(one); !got.State.Finished() {
				t.Fatalf("not finished: %v", got.State)
			}
			wantMark(t, m, false)
		})
	}
}

// TestMarkWithARollbackAfterARestore: what is decided in a restored state says nothing of what was decided before;
// what begins there has no mark.
func TestMarkWithARollbackAfterARestore(t *testing.T) {
	m := restoredMarked(t, scenario{make: []Command{begin}}.build(t))
	m.Apply(Entry{Tick: 10}) // the deadline, while recovery is paused
	if got, _ := m.Get(one); got.State != txn.RollingBack {
		t.Fatal(got.State)
	}
	wantMark(t, m, true)
	m = restoredMarked(t, m)
	wantMark(t, m, true)
	m.Apply(Entry{Tick: 11, Wall: 7, Commands: []Command{ResumeRecovery{By: "ann", Reason: "compared"}}})
	later := begin
	later.ID, later.Expiry = testID(2), 700
	m.Apply(Entry{Tick: 11, Commands: []Command{later}})
	wantMark(t, m, true)
	if got, ok := m.Get(later.ID); !ok || got.BeforeRestore {
		t.Errorf("begun after the restore: %v, %+v", ok, got)
	}
}

// TestMarkThatContradictsTheState is refused: nothing was restored, or nothing is left to be done.
func TestMarkThatContradictsTheState(t *testing.T) {
	for _, w := range []scenario{{make: []Command{begin}}, {make: []Command{begin, commit, acks(txn.BranchCommitted)}, held: true}} {
		s := w.build(t).Snapshot()
		_, err := Restore(s.Header(), withoutError(s.Sessions()), func(yield func(*Transaction, error) bool) {
			s.Transactions()(func(t *Transaction) bool { t.BeforeRestore = true; return yield(t, nil) })
		})
		if err == nil {
			t.Errorf("%+v: taken", w)
		}
	}
}
