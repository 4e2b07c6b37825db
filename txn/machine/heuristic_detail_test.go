package machine

import (
	"testing"

	"github.com/txmgr/txmgr/txn"
)

// TestReplacedHeuristicOutcomeIsNotStored: the detail of a branch whose end was unknown is
// replaced by that of its proof, and nothing stays when the transaction is forgotten.
func TestReplacedHeuristicOutcomeIsNotStored(t *testing.T) {
	m := (scenario{make: []Command{
		begin, commit,
		ReportHeuristic{ID: one, Branch: 1, Heuristic: txn.HeuristicHazard, Detail: "the log was cut"},
	}}).build(t)
	cells := m.strings.Len()
	do(t, m, ReportHeuristic{ID: one, Branch: 1, Heuristic: txn.HeuristicRollback, Detail: "it is not there"})
	if x, _ := m.Get(one); x.Branches[0].Detail != "it is not there" || m.strings.Len() != cells {
		t.Errorf("detail %q; %d cells, %d before", x.Branches[0].Detail, m.strings.Len(), cells)
	}
	do(t, m, ReportCompletion{one, []txn.CompletionReport{{Branch: 2, State: txn.BranchCommitted}}}, Forget{ID: one, Reason: "paid by hand"})
	m.Apply(Entry{Tick: 1 << 40})
	if m.strings.Len() != 0 || m.branches.Len() != 0 || m.txs.Len() != 0 {
		t.Errorf("left behind: %d cells, %d branches, %d records", m.strings.Len(), m.branches.Len(), m.txs.Len())
	}
}
