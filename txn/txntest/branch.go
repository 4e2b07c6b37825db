package txntest

import (
	"context"
	"errors"
	"fmt"

	"github.com/txmgr/txmgr/txn"
)

// branch is the work of one transaction, and the application's resource for it. All fields but
// the first two are guarded by the lock of the Database.
type branch struct {
	r        *Database
	id       txn.ID
	joined   bool // the application has, or had, its resource
	state    txn.BranchState
	effects  []func()
	readOnly bool // it voted read-only, and ends as the transaction does
	calls    []string
}

var _ interface {
	txn.Resource
	txn.OnePhaseCommitter
} = (*branch)(nil)

// open returns the resource of a new branch.
func (r *Database) open(id txn.ID) (*branch, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	b := r.branchLocked(id)
	if b.joined || b.state != txn.BranchEnlisted {
		return nil, &txn.Error{Op: "join", ID: id, Err: txn.ErrConflict, Detail: fmt.Sprintf("%s has a branch of it that is %v", r.name, b.state)}
	}
	b.joined = true
	return b, nil
}

func (r *Database) branchLocked(id txn.ID) *branch {
	if r.branches[id] == nil {
		r.branches[id] = &branch{r: r, id: id, state: txn.BranchEnlisted}
	}
	return r.branches[id]
}

// inject carries out a call for a branch, with the next fault for it, under the lock, and
// records it.
func (r *Database) inject(ctx context.Context, id txn.ID, by, call string, do func()) error {
	lost := context.Cause(ctx)
	if lost == nil {
		lost = r.faults.inject(ctx, call, func() {
			r.mu.Lock()
			defer r.mu.Unlock()
			do()
		})
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	line := by + call
	if lost != nil {
		line += ": " + lost.Error()
	}
	b := r.branchLocked(id)
	b.calls = append(b.calls, line)
	return lost
}

// Prepare implements [txn.Resource].
func (b *branch) Prepare(ctx context.Context) (vote txn.Vote, err error) {
	lost := b.r.inject(ctx, b.id, "", "prepare", func() {
		refusal := b.noVoteLocked()
		switch {
		case refusal != nil:
			vote, err, b.state = txn.VoteNo, refusal, txn.BranchRolledBack
		case len(b.effects) == 0:
			vote, b.state, b.readOnly = txn.VoteReadOnly, txn.BranchCommitted, true
		default:
			vote, b.state = txn.VotePrepared, txn.BranchPrepared
		}
	})
	if lost != nil {
		return 0, lost
	}
	return vote, err
}

// noVoteLocked is why the branch cannot commit.
func (b *branch) noVoteLocked() error {
	if b.state != txn.BranchEnlisted {
		return fmt.Errorf("the coordinator has ended the session: the branch is %v", b.state)
	}
	if len(b.r.noVotes) == 0 {
		return nil
	}
	reason := b.r.noVotes[0]
	b.r.noVotes = b.r.noVotes[1:]
	return errors.New(reason)
}

// Commit implements [txn.Resource].
func (b *branch) Commit(ctx context.Context) (err error) {
	lost := b.r.inject(ctx, b.id, "", "commit", func() {
		if b.commitLocked(txn.BranchPrepared); b.state != txn.BranchCommitted {
			err = fmt.Errorf("the branch is %v", b.state)
		}
	})
	return errors.Join(lost, err)
}

// commitLocked runs the effects, when the branch is in the state from which they can be
// committed.
func (b *branch) commitLocked(from txn.BranchState) {
	if b.state != from {
		return
	}
	for _, effect := range b.effects {
		effect()
	}
	b.state, b.effects = txn.BranchCommitted, nil
}

// Rollback implements [txn.Resource].
func (b *branch) Rollback(ctx context.Context) (err error) {
	lost := b.r.inject(ctx, b.id, "", "rollback", func() {
		if b.rollbackLocked(); b.state != txn.BranchRolledBack {
			err = fmt.Errorf("the branch is %v", b.state)
		}
	})
	return errors.Join(lost, err)
}

func (b *branch) rollbackLocked() {
	if b.state == txn.BranchEnlisted || b.state == txn.BranchPrepared || b.readOnly {
		b.state, b.effects = txn.BranchRolledBack, nil
	}
}

// Release implements [txn.Resource]: a branch that is not prepared is lost with its connection.
func (b *branch) Release() {
	b.r.mu.Lock()
	defer b.r.mu.Unlock()
	if b.state == txn.BranchEnlisted {
		b.rollbackLocked()
	}
}

// OnePhase implements [txn.OnePhaseCommitter].
func (b *branch) OnePhase() bool { return true }

// CommitOnePhase implements [txn.OnePhaseCommitter].
func (b *branch) CommitOnePhase(ctx context.Context) (end txn.BranchState, err error) {
	lost := b.r.inject(ctx, b.id, "", "commit", func() {
		if err = b.noVoteLocked(); err != nil {
			b.rollbackLocked()
		}
		b.commitLocked(txn.BranchEnlisted)
		end = b.state
	})
	if lost != nil {
		return 0, lost
	}
	return end, err
}

// graceful implements fakeParticipant.
func (r *Database) graceful() bool { return true }

// call implements fakeParticipant: the coordinator completes what the application has not.
func (r *Database) call(ctx context.Context, c Call) (f callResult, err error) {
	err = r.inject(ctx, c.ID, "coordinator: ", c.Phase, func() {
		b := r.branchLocked(c.ID)
		switch c.Phase {
		case "commit":
			b.commitLocked(txn.BranchPrepared)
			if b.state == txn.BranchEnlisted { // a vote that said prepared was wrong
				b.rollbackLocked()
			}
		default: // also to resolve an outcome: what the application has not committed yet it never will
			b.rollbackLocked()
		}
		f.state = b.state
	})
	return f, err
}
