package txntest

import (
	"errors"
	"fmt"

	"github.com/txmgr/txmgr/txn"
	"github.com/txmgr/txmgr/txn/machine"
)

// withReason adds to an error about a rollback its reason, where one was given.
func (m *Manager) withReason(err error) error {
	var e *txn.Error
	if !errors.As(err, &e) || e.Err != txn.ErrRolledBack && e.Err != txn.ErrEndedByApplication || e.Cause == txn.CauseTimeout {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if t, ok := m.machine.Get(e.ID); ok && t.Reason != "" && !t.State.Commits() {
		e.Detail = t.Reason + "; " + e.Detail
	}
	return err
}

// rollbackError is the error of a call that has waited, and finds the transaction rolled back.
func (m *Manager) rollbackError(op string, id txn.ID) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	t, _ := m.machine.Get(id)
	return t.RollbackError(op)
}

func reasonTooLong(op string, id txn.ID, bytes int) error {
	return &txn.Error{Op: op, ID: id, Err: txn.ErrInvalid, Detail: fmt.Sprintf("reason has %d bytes; at most %d", bytes, txn.MaxReason)}
}

func stoppingError(op string, id txn.ID) error {
	return &txn.Error{Op: op, ID: id, Err: txn.ErrUnavailable, Detail: "the coordinator is stopping"}
}

func outcomeOf(r machine.Result) txn.Outcome {
	return txn.Outcome{State: r.State, Cause: r.Cause, Heuristic: r.Heuristic, EndedByApplication: r.EndedByApplication}
}
