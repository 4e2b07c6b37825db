package ledger

import (
	"errors"
	"testing"

	"github.com/txmgr/txmgr/txn"
)

// TestCommittedByAnotherSessionIsNoRefusal: the work of that connection is applied, so no error
// may say that nothing was.
func TestCommittedByAnotherSessionIsNoRefusal(t *testing.T) {
	ends := func(t *testing.T, again *branchTx) map[string]error {
		vote, errPrepare := again.Prepare(t.Context())
		if vote != 0 {
			t.Errorf("voted %v", vote)
		}
		return map[string]error{"prepare": errPrepare, "rollback": again.Rollback(t.Context())}
	}
	onePhase := func(t *testing.T, again *branchTx) map[string]error {
		state, err := again.CommitOnePhase(t.Context())
		if state != 0 {
			t.Errorf("ended as %v", state)
		}
		return map[string]error{"one phase": err}
	}
	for name, attempt := range map[string]func(*testing.T, *branchTx) map[string]error{"two phases": ends, "one phase": onePhase} {
		t.Run(name, func(t *testing.T) {
			l, path := newLedger(t)
			local(t, l, "set alice 100")
			first, b := alone(t, path, "add alice -10")
			if state, err := first.CommitOnePhase(t.Context()); state != txn.BranchCommitted || err != nil {
				t.Fatal(state, err)
			}
			again := newBranchTx(newStore(path), b.XID)
			again.startMark = first.startMark
			do(t, again, "add alice -10")
			for what, err := range attempt(t, again) {
				if !errors.Is(err, txn.ErrEndedByApplication) {
					t.Errorf("%s: %v; want %v", what, err, txn.ErrEndedByApplication)
				}
			}
			if got := local(t, l, "get alice"); got != "alice 90\n" {
				t.Errorf("balance %s", got)
			}
		})
	}
}
