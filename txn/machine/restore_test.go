package machine

import (
	"testing"
	"time"

	"github.com/txmgr/txmgr/txn"
)

// TestRestoreKeepsWhatIsDue: a snapshot that is taken while more is due than one entry
// drains holds the rest, in its order.
func TestRestoreKeepsWhatIsDue(t *testing.T) {
	const n = DrainBatch + 100
	m := bootstrapped(t, "bank")
	for i := range uint64(n) {
		m.Apply(Entry{Commands: []Command{Begin{ID: testID(i + 1), Timeout: time.Second, Expiry: 7, Branches: []Branch{{Participant: "bank"}}}}})
	}
	m.Apply(Entry{Tick: 7})
	if !m.Due() {
		t.Fatal("one entry has drained everything: nothing is tried here")
	}
	s := m.Snapshot()
	defer s.Release()
	r, err := Restore(s.Header(), withoutError(s.Transactions()))
	if err != nil {
		t.Fatal(err)
	}
	if next, ok := r.Next(); !r.Due() || !ok || next != 7 {
		t.Errorf("after the restore the next deadline is %d, %v; due: %v", next, ok, r.Due())
	}
	work := r.Apply(Entry{Tick: 7}).Work
	if len(work) != n-DrainBatch || r.Due() {
		t.Fatalf("the entry after the restore moved %d, more due: %v", len(work), r.Due())
	}
	for i, id := range work {
		if want := testID(uint64(DrainBatch + i + 1)); id != want {
			t.Fatalf("place %d has %v; want %v", i, id, want)
		}
	}
	if o, _ := r.Lookup(testID(n)); o.State != txn.RollingBack || o.Cause != txn.CauseTimeout {
		t.Errorf("the last one is %+v", o)
	}
	m.Apply(Entry{Tick: 7})
	if m.Hash() != r.Hash() {
		t.Error("the restored state and the original differ")
	}
}
