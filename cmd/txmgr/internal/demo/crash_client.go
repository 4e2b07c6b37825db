package demo

import (
	"context"

	"github.com/txmgr/txmgr/txn"
)

// crashBeforeCommit simulates an application that crashes when all its branches are prepared: no
// decision is requested, and its connections are closed.
type crashBeforeCommit struct {
	txn.Manager
	id txn.ID
}

// Commit does not reach the coordinator.
func (m *crashBeforeCommit) Commit(_ context.Context, id txn.ID, _ txn.CommitRequest) (txn.Outcome, error) {
	m.id = id
	return txn.Outcome{}, &txn.Error{Op: "commit", ID: id, Err: txn.ErrInDoubt}
}

// killAfterCommit simulates an application that crashes together with the coordinator, or with the
// leader, between the decision and phase two.
type killAfterCommit struct {
	txn.Manager
	kill    func() error
	id      txn.ID
	decided txn.State
}

// Commit is carried out, but its answer is lost.
func (m *killAfterCommit) Commit(ctx context.Context, id txn.ID, c txn.CommitRequest) (txn.Outcome, error) {
	m.id = id
	out, err := m.Manager.Commit(ctx, id, c)
	if err != nil {
		return out, err
	}
	m.decided = out.State
	if err := m.kill(); err != nil {
		return out, err
	}
	return txn.Outcome{}, &txn.Error{Op: "commit", ID: id, Err: txn.ErrInDoubt}
}
