package machine

import (
	"testing"

	"github.com/txmgr/txmgr/txn"
)

// TestAHazardThatIsReplacedIsNotStored: the detail of a branch whose end was unknown makes
// room for that of its proof, and nothing stays when the transaction is forgotten.
func TestAHazardThatIsReplacedIsNotStored(t *testing.T) {
	m := (world{make: []Command{
		begin, commit,
		Hazard{ID: one, Branch: 1, Hazard: txn.HazardUnknown, Detail: "the log was cut"},
	}}).build(t)
	cells := m.texts.len()
	do(t, m, Hazard{ID: one, Branch: 1, Hazard: txn.HazardRolledBack, Detail: "it is not there"})
	if x, _ := m.Get(one); x.Branches[0].Detail != "it is not there" || m.texts.len() != cells {
		t.Errorf("detail %q; %d cells, %d before", x.Branches[0].Detail, m.texts.len(), cells)
	}
	do(t, m, Done{one, []txn.Ack{{Branch: 2, State: txn.BranchCommitted}}}, Forget{ID: one, Reason: "paid by hand"})
	m.Apply(Entry{Tick: 1 << 40})
	if m.texts.len() != 0 || m.branches.len() != 0 || m.txs.len() != 0 {
		t.Errorf("left behind: %d cells, %d branches, %d records", m.texts.len(), m.branches.len(), m.txs.len())
	}
}
