package node

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/txmgr/txmgr/participant"
	"github.com/txmgr/txmgr/txn"
	"github.com/txmgr/txmgr/txn/admin"
	"github.com/txmgr/txmgr/txn/machine"
)

// probeTimeout bounds the time a participant has to report the status of a branch.
const probeTimeout = 5 * time.Second

// probeBranches asks the participants of some branches, all at the same time, for the status of
// the branches. It takes no longer than probeTimeout, and changes nothing.
func (n *Node) probeBranches(ctx context.Context, t *machine.Transaction, ids []txn.BranchID) []admin.BranchProbe {
	out := make([]admin.BranchProbe, len(ids))
	branches := make([]participant.Branch, len(ids))
	n.fsm.View(func(m *machine.Machine) {
		for i, id := range ids {
			branches[i] = branchDescriptor(m, t, id)
		}
	})
	var wg sync.WaitGroup
	for i, id := range ids {
		name, b := t.Branches[id-1].Participant, branches[i]
		out[i] = admin.BranchProbe{Branch: id.String(), Participant: name, Attempts: []admin.CallAttempt{}}
		wg.Go(func() {
			said, err := callWithTimeout(ctx, probeTimeout, func(ctx context.Context) (participant.BranchReport, error) { return n.inspectBranch(ctx, name, b) })
			if err != nil {
				out[i].Error = oneLine(err.Error())
				return
			}
			applyReport(&out[i], said)
		})
	}
	wg.Wait()
	return out
}

// outcomeNames are the names of branch outcomes in the API.
var outcomeNames = map[participant.BranchOutcome]string{
	participant.Committed: txn.BranchCommitted.String(), participant.RolledBack: txn.BranchRolledBack.String(),
	participant.Unknown: txn.HeuristicHazard.String(),
}

func applyReport(q *admin.BranchProbe, said participant.BranchReport) {
	q.Prepared, q.Since, q.Detail = said.Prepared, said.Since, said.Detail
	q.Outcome, q.Locks, q.Waiters = outcomeNames[said.Outcome], said.Locks, said.Waiters
}

// provenOutcome returns how a branch is known to have ended; ok is false when that is not
// known.
func provenOutcome(q *admin.BranchProbe) (end txn.BranchState, ok bool) {
	switch q.Outcome {
	case txn.BranchCommitted.String():
		return txn.BranchCommitted, true
	case txn.BranchRolledBack.String():
		return txn.BranchRolledBack, true
	}
	return 0, false
}

// inspectBranch asks one participant. If it does not support questions about a branch, it is
// asked for its prepared branches.
func (n *Node) inspectBranch(ctx context.Context, name string, b participant.Branch) (participant.BranchReport, error) {
	p, err := n.participants.Get(ctx, name)
	if err != nil {
		return participant.BranchReport{}, err
	}
	if i, ok := p.(participant.Inspector); ok {
		return i.Inspect(ctx, b)
	}
	held, err := p.Prepared(ctx, b.XID)
	if err != nil {
		return participant.BranchReport{}, err
	}
	for _, h := range held {
		if h.XID == b.XID {
			return participant.BranchReport{Prepared: true, Since: h.Since, Detail: h.Owner}, nil
		}
	}
	return participant.BranchReport{Outcome: participant.Unknown, Detail: "it is not prepared there, and participants of this kind cannot say more"}, nil
}

// callWithTimeout calls fn and gives it at most d. A panic is an error. An fn that ignores its
// context continues, and its answer is lost.
func callWithTimeout[T any](ctx context.Context, d time.Duration, fn func(context.Context) (T, error)) (T, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, d, fmt.Errorf("no answer within %v", d))
	type answer struct {
		value T
		err   error
	}
	answered := make(chan answer, 1)
	go func() {
		defer cancel()
		var a answer
		defer func() {
			if x := recover(); x != nil {
				a.err = fmt.Errorf("the participant panicked: %v", x)
			}
			answered <- a
		}()
		if a.value, a.err = fn(ctx); a.err != nil && errors.Is(a.err, ctx.Err()) {
			a.err = context.Cause(ctx)
		}
	}()
	select {
	case a := <-answered:
		return a.value, a.err
	case <-ctx.Done():
		var none T
		select {
		case a := <-answered: // the context ended and fn answered at the same time
			return a.value, a.err
		default:
			return none, context.Cause(ctx)
		}
	}
}
