package node

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/txmgr/txmgr/participant"
	"github.com/txmgr/txmgr/txn"
	"github.com/txmgr/txmgr/txn/machine"
)

// inquireTimeout bounds what a participant may take to say how a branch is.
const inquireTimeout = 5 * time.Second

// inquire asks the participants of some branches, all at the same time, how the
// branches are now. It takes no longer than inquireTimeout, and changes nothing.
func (n *Node) inquire(ctx context.Context, t *machine.Transaction, ids []txn.BranchID) []txn.BranchInquiry {
	out := make([]txn.BranchInquiry, len(ids))
	branches := make([]participant.Branch, len(ids))
	n.fsm.View(func(m *machine.Machine) {
		for i, id := range ids {
			branches[i] = work(m, t, id)
		}
	})
	var wg sync.WaitGroup
	for i, id := range ids {
		name, b := t.Branches[id-1].Participant, branches[i]
		out[i] = txn.BranchInquiry{Branch: id.String(), Participant: name, Attempts: []txn.Attempt{}}
		wg.Go(func() {
			said, err := within(ctx, inquireTimeout, func(ctx context.Context) (participant.Testimony, error) { return n.inspect(ctx, name, b) })
			if err != nil {
				out[i].Error = oneLine(err.Error())
				return
			}
			testify(&out[i], said)
		})
	}
	wg.Wait()
	return out
}

// endings are the names of endings in the API.
var endings = map[participant.Ending]string{
	participant.Committed: txn.BranchCommitted.String(), participant.RolledBack: txn.BranchRolledBack.String(),
	participant.Unknown: txn.HazardUnknown.String(),
}

func testify(q *txn.BranchInquiry, said participant.Testimony) {
	q.Prepared, q.Since, q.Detail = said.Prepared, said.Since, said.Detail
	q.Ending, q.Locks, q.Waiters = endings[said.Ending], said.Locks, said.Waiters
}

// provedEnd gives how a branch is known to have ended; ok is false when that is not
// known.
func provedEnd(q *txn.BranchInquiry) (end txn.BranchState, ok bool) {
	switch q.Ending {
	case txn.BranchCommitted.String():
		return txn.BranchCommitted, true
	case txn.BranchRolledBack.String():
		return txn.BranchRolledBack, true
	}
	return 0, false
}

// inspect asks one participant. One that cannot be asked about a branch is asked
// what it holds prepared.
func (n *Node) inspect(ctx context.Context, name string, b participant.Branch) (participant.Testimony, error) {
	p, err := n.members.get(ctx, name)
	if err != nil {
		return participant.Testimony{}, err
	}
	if i, ok := p.(participant.Inspector); ok {
		return i.Inspect(ctx, b)
	}
	held, err := p.Prepared(ctx, b.XID)
	if err != nil {
		return participant.Testimony{}, err
	}
	for _, h := range held {
		if h.XID == b.XID {
			return participant.Testimony{Prepared: true, Since: h.Since, Detail: h.Owner}, nil
		}
	}
	return participant.Testimony{Ending: participant.Unknown, Detail: "it is not prepared there, and participants of this kind cannot say more"}, nil
}

// within calls fn and gives it at most d. A panic is an error. An fn that does not
// heed its context goes on, and its answer is lost.
func within[T any](ctx context.Context, d time.Duration, fn func(context.Context) (T, error)) (T, error) {
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
		case a := <-answered: // cancel came with the answer
			return a.value, a.err
		default:
			return none, context.Cause(ctx)
		}
	}
}
