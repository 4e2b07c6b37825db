package mariadb

import (
	"context"
	"errors"
	"fmt"

	"github.com/txmgr/txmgr/txn"
)

var _ txn.OnePhaseCommitter = (*branch)(nil)

// OnePhase implements [txn.OnePhaseCommitter].
func (b *branch) OnePhase() bool { return b.markers != "" && !b.readOnly }

// CommitOnePhase implements [txn.OnePhaseCommitter].
func (b *branch) CommitOnePhase(ctx context.Context) (txn.BranchState, error) {
	b.workEnded.Store(true)
	if b.phase != phaseOpen {
		return 0, errors.New("there is no transaction to commit")
	}
	b.phase = phaseUnknown
	err := b.runFinal(ctx, "XA END "+b.name+"; "+xaCommit+" "+b.name+" ONE PHASE")
	if err == nil {
		b.phase = phaseEnded
		return txn.BranchCommitted, nil
	}
	undone, err := b.rollbackAfter(ctx, err)
	if !undone {
		return 0, b.unprovenError(fmt.Errorf("commit: %w", err))
	}
	return txn.BranchRolledBack, fmt.Errorf("commit: %w", err)
}
