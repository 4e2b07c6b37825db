package txntest

import (
	"github.com/txmgr/txmgr/txn"
	"github.com/txmgr/txmgr/txn/machine"
)

// reportEndedByApplication records which branches were ended by statements of the application's
// own, and returns the votes that are left.
func (m *Manager) reportEndedByApplication(op string, id txn.ID, votes []txn.BranchVote, reason string) (left []txn.BranchVote, out txn.Outcome, err error) {
	told, left := machine.SplitEndedByApplication(id, votes, reason)
	for _, c := range told {
		if out, err = m.call(op, id, c); err != nil {
			return left, out, err
		}
	}
	return left, out, nil
}

// endedByApplicationError is the error of a call that requires a rollback, and finds one with a
// branch that was ended by the application.
func endedByApplicationError(op string, id txn.ID, out txn.Outcome, err error) error {
	if err != nil || !out.EndedByApplication {
		return err
	}
	return machine.Result{Code: machine.Decided, State: out.State, Cause: out.Cause, Heuristic: out.Heuristic, EndedByApplication: true}.ToError(op, id)
}
