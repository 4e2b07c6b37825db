package participanttest

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/txmgr/txmgr/participant"
	"github.com/txmgr/txmgr/txn"
)

// Coordinator is a small working [txn.Manager], without a log and without a clock: it decides,
// times out and drives branches when the test asks for it. For tests of a participant's
// application side.
type Coordinator struct {
	cluster      string
	participants map[string]participant.Participant

	mu  sync.Mutex // guards all below
	txs map[txn.ID]*globalTx
}

type globalTx struct {
	state              txn.State
	cause              txn.Cause
	endedByApplication bool
	branches           []participant.Branch
	participants       []string
	states             []txn.BranchState
}

// NewCoordinator returns a coordinator of a cluster's participants, by their names.
func NewCoordinator(cluster string, participants map[string]participant.Participant) *Coordinator {
	return &Coordinator{cluster: cluster, participants: participants, txs: map[txn.ID]*globalTx{}}
}

// Begin implements [txn.Manager].
func (c *Coordinator) Begin(_ context.Context, o txn.Options) (txn.BeginResult, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	id := txn.NewID(time.UnixMilli(int64(1500000000000+len(c.txs))), [9]byte{2})
	c.txs[id] = &globalTx{state: txn.Active}
	if o.Timeout == 0 {
		o.Timeout = time.Minute
	}
	return txn.BeginResult{ID: id, Timeout: o.Timeout}, nil
}

// Enlist implements [txn.Manager].
func (c *Coordinator) Enlist(_ context.Context, id txn.ID, e txn.Enlistment) (txn.Branch, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	g := c.txs[id]
	if g.state != txn.Active {
		return txn.Branch{}, &txn.Error{Op: "enlist", ID: id, Err: txn.ErrNotActive}
	}
	n := txn.BranchID(len(g.branches) + 1)
	xid := txn.XID(c.cluster, id, n)
	g.branches = append(g.branches, participant.Branch{TX: id, ID: n, XID: xid, SessionRef: e.SessionRef})
	g.participants, g.states = append(g.participants, e.Participant), append(g.states, txn.BranchEnlisted)
	return txn.Branch{ID: n, Participant: e.Participant, XID: xid}, nil
}

// Commit implements [txn.Manager].
func (c *Coordinator) Commit(_ context.Context, id txn.ID, m txn.CommitRequest) (txn.Outcome, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	g := c.txs[id]
	if g.state == txn.RollingBack {
		return txn.Outcome{}, g.rollbackError("commit", id)
	}
	if g.state == txn.Preparing {
		return txn.Outcome{}, &txn.Error{Op: "commit", ID: id, State: g.state, Err: txn.ErrConflict} // delegated
	}
	for _, v := range m.Votes {
		g.branches[v.Branch-1].Vote = v.Vote
		g.branches[v.Branch-1].ClientCompletes = m.ClientCompletes
		if v.Vote == txn.VoteReadOnly {
			g.states[v.Branch-1] = txn.BranchCommitted
		}
	}
	g.state = txn.Committing
	return txn.Outcome{State: g.state}, nil
}

// Vote implements [txn.Manager].
func (c *Coordinator) Vote(_ context.Context, id txn.ID, b txn.Votes) (txn.Outcome, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	g := c.txs[id]
	for _, v := range b.Votes {
		if v.Vote == txn.VoteEndedByApplication {
			g.endedByApplication = true
			if g.branches[v.Branch-1].Vote == txn.VoteDelegated {
				continue // the end of the branch still decides
			}
		}
		g.branches[v.Branch-1].Vote = v.Vote
		if (v.Vote == txn.VoteNo || v.Vote == txn.VoteEndedByApplication) && !g.state.Decided() {
			g.state, g.cause = txn.RollingBack, txn.CauseVoteNo
		}
		if v.Vote == txn.VoteNo {
			g.states[v.Branch-1] = txn.BranchRolledBack
		}
	}
	return txn.Outcome{State: g.state, Cause: g.cause, EndedByApplication: g.endedByApplication}, nil
}

// rollbackError is the error of a call that meets a rollback.
func (g *globalTx) rollbackError(op string, id txn.ID) error {
	e := &txn.Error{Op: op, ID: id, State: g.state, Cause: g.cause, Err: txn.ErrRolledBack}
	if g.endedByApplication {
		e.Err = txn.ErrEndedByApplication
	}
	return e
}

// Delegate implements [txn.Manager].
func (c *Coordinator) Delegate(_ context.Context, id txn.ID, b txn.BranchID) (txn.Outcome, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	g := c.txs[id]
	switch {
	case g.state == txn.RollingBack:
		return txn.Outcome{}, g.rollbackError("delegate", id)
	case g.state != txn.Active || len(g.branches) != 1 || b != 1:
		return txn.Outcome{}, &txn.Error{Op: "delegate", ID: id, State: g.state, Err: txn.ErrConflict}
	}
	g.state, g.branches[0].Vote = txn.Preparing, txn.VoteDelegated
	return txn.Outcome{State: g.state}, nil
}

// Rollback implements [txn.Manager].
func (c *Coordinator) Rollback(_ context.Context, id txn.ID, _ string) (txn.Outcome, error) {
	return c.end(id, txn.CauseClient), nil
}

// TimeOut decides as the coordinator does when the transaction's deadline has passed.
func (c *Coordinator) TimeOut(id txn.ID) { c.end(id, txn.CauseTimeout) }

func (c *Coordinator) end(id txn.ID, cause txn.Cause) txn.Outcome {
	c.mu.Lock()
	defer c.mu.Unlock()
	g := c.txs[id]
	if g.state == txn.Active {
		g.state, g.cause = txn.RollingBack, cause
	}
	return txn.Outcome{State: g.state, Cause: g.cause, EndedByApplication: g.endedByApplication}
}

// ReportCompletion implements [txn.Manager].
func (c *Coordinator) ReportCompletion(_ context.Context, id txn.ID, acks ...txn.CompletionReport) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	g := c.txs[id]
	for _, a := range acks {
		g.states[a.Branch-1] = a.State
		if g.branches[a.Branch-1].Vote == txn.VoteDelegated {
			g.state, g.cause = txn.Committing, 0
			if a.State == txn.BranchRolledBack {
				g.state, g.cause = txn.RollingBack, txn.CauseVoteNo
			}
		}
	}
	return nil
}

// Extend is not supported.
func (c *Coordinator) Extend(context.Context, txn.ID, time.Duration) (txn.Outcome, error) {
	return txn.Outcome{}, errors.ErrUnsupported
}

// Get is not supported.
func (c *Coordinator) Get(context.Context, txn.ID) (txn.Info, error) {
	return txn.Info{}, errors.ErrUnsupported
}

// Wait is not supported.
func (c *Coordinator) Wait(context.Context, txn.ID, txn.Goal) (txn.Info, error) {
	return txn.Info{}, errors.ErrUnsupported
}

// Unreported returns the branches without a completion report.
func (c *Coordinator) Unreported(id txn.ID) (left []txn.BranchID) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for i, state := range c.txs[id].states {
		if !state.Finished() {
			left = append(left, txn.BranchID(i+1))
		}
	}
	return left
}

// Branch returns what a participant would receive of a branch.
func (c *Coordinator) Branch(id txn.ID, n txn.BranchID) participant.Branch {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.txs[id].branches[n-1]
}

// Recover drives what is left of a transaction to its decision, or finds out the decision that
// a delegated branch has made. Branches that end otherwise than decided must end as in
// otherwise.
func (c *Coordinator) Recover(t *testing.T, id txn.ID, otherwise ...participant.BranchOutcome) {
	t.Helper()
	c.mu.Lock()
	state, at := c.txs[id].state, c.txs[id].participants
	c.mu.Unlock()
	for _, n := range c.Unreported(id) {
		b := &fixture{t: t, p: c.participants[at[n-1]]}
		do, want, ack := b.p.Rollback, participant.RolledBack, txn.BranchRolledBack
		switch {
		case state == txn.Preparing: // the branch decided
			want = b.drive(b.resolver().ResolveOutcome, c.Branch(id, n))
			if want == participant.Committed {
				ack = txn.BranchCommitted
			}
			do = b.resolver().ResolveOutcome
		case state.Commits():
			do, want, ack = b.p.Commit, participant.Committed, txn.BranchCommitted
		}
		b.want(do, c.Branch(id, n), append(otherwise, want)[0])
		if err := c.ReportCompletion(t.Context(), id, txn.CompletionReport{Branch: n, State: ack}); err != nil {
			t.Error(err)
		}
	}
}

// Last is the transaction that was begun last.
func (c *Coordinator) Last() (last txn.ID) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for id := range c.txs {
		if id.Compare(last) > 0 {
			last = id
		}
	}
	return last
}

// CheckNothingPrepared checks, at the end of a test, that no participant holds a prepared
// branch.
func (c *Coordinator) CheckNothingPrepared(t *testing.T) {
	t.Helper()
	for name, p := range c.participants {
		if left, err := p.Prepared(context.WithoutCancel(t.Context()), txn.ClusterPrefix(c.cluster)); err != nil || len(left) != 0 {
			t.Errorf("left prepared in %s: %v, %v", name, left, err)
		}
	}
}
