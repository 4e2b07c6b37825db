package demo

import (
	"context"

	"github.com/txmgr/txmgr/txn"
)

// crashBeforeCommit is the coordinator as an application sees it that dies when
// all its branches are prepared: nobody asks for the decision, and the sessions
// are gone.
type crashBeforeCommit struct {
	txn.Manager
	id txn.ID
}

// Commit does not reach the coordinator.
func (m *crashBeforeCommit) Commit(_ context.Context, id txn.ID, _ txn.CommitRequest) (txn.Outcome, error) {
	m.id = id
	return txn.Outcome{}, &txn.Error{Op: "commit", ID: id, Err: txn.ErrInDoubt}
}

// killAfterCommit is the coordinator as an application sees it that dies, with
// the coordinator, or with the node that leads, between the decision and phase two.
type killAfterCommit struct {
	txn.Manager
	kill    func() error
	id      txn.ID
	decided txn.State
}

// Commit is carried out, and nobody hears of it.
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
