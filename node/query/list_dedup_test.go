package query

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/txmgr/txmgr/txn"
	"github.com/txmgr/txmgr/txn/machine"
)

// TestEachOnce: if a list has found a transaction twice, the later record is kept.
func TestEachOnce(t *testing.T) {
	of := func(id byte, s txn.State) machine.Transaction { return machine.Transaction{ID: txn.ID{id}, State: s} }
	got := eachOnce([]machine.Transaction{
		of(3, txn.Active), of(1, txn.Committed), of(2, txn.Committing), of(2, txn.Committed), of(3, txn.RollingBack), of(3, txn.RolledBack),
	})
	want := []machine.Transaction{of(1, txn.Committed), of(2, txn.Committed), of(3, txn.RolledBack)}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
}
