package node

import (
	"context"
	"fmt"
	"sync"

	"github.com/txmgr/txmgr/txn"
)

// readIndex asks the other nodes whether this one still leads, once for however many
// readers wait: those that come while a question is on its way share the next one,
// because an answer speaks only of the time after its question.
type readIndex struct {
	verifyLeader func() error

	mu   sync.Mutex
	next *readRound // guarded by mu: not asked yet; nil when nobody waits for it
	busy bool       // guarded by mu: a question is on its way

	closed bool           // guarded by mu
	wg     sync.WaitGroup // the goroutine that asks
}

var errStopping = fmt.Errorf("%w: the coordinator is stopping", txn.ErrUnavailable)

type readRound struct {
	finished chan struct{}
	err      error // set before answered is closed
}

// confirm returns nil when this node led at some moment after the call.
func (v *readIndex) confirm(ctx context.Context) error {
	v.mu.Lock()
	if v.closed {
		v.mu.Unlock()
		return errStopping
	}
	q := v.next
	if q == nil {
		q = &readRound{finished: make(chan struct{})}
		v.next = q
	}
	if !v.busy {
		v.busy = true
		v.wg.Go(v.run)
	}
	v.mu.Unlock()
	select {
	case <-q.finished:
		return q.err
	case <-ctx.Done():
		return fmt.Errorf("%w: %w before a quorum had confirmed that this node leads", txn.ErrUnavailable, context.Cause(ctx))
	}
}

// run asks until nobody waits.
func (v *readIndex) run() {
	for {
		v.mu.Lock()
		q := v.next
		v.next = nil
		v.busy = q != nil
		v.mu.Unlock()
		if q == nil {
			return
		}
		if err := v.verifyOnce(); err != nil {
			q.err = fmt.Errorf("%w: %w", txn.ErrUnavailable, err)
		}
		close(q.finished)
	}
}

// verifyOnce asks, unless the verifier is closed.
func (v *readIndex) verifyOnce() error {
	v.mu.Lock()
	closed := v.closed
	v.mu.Unlock()
	if closed {
		return errStopping
	}
	return v.verifyLeader()
}

// close refuses further questions, and waits for the answer to the one that is on its
// way.
func (v *readIndex) close() {
	v.mu.Lock()
	v.closed = true
	v.mu.Unlock()
	v.wg.Wait()
}

// requireReadable says whether the state here may be read: because this node leads, which a
// quorum has confirmed after the call, or because the caller is content with an
// older state. Whatever was acknowledged before the call was applied here then: by
// this leader, or by an earlier one, all of whose entries this one has applied
// before it began to lead.
func (n *Node) requireReadable(ctx context.Context) error {
	if txn.StaleAllowed(ctx) {
		return n.logFailure()
	}
	return n.confirmLeadership(ctx)
}

// confirmLeadership makes sure that this node led at some moment after the call.
func (n *Node) confirmLeadership(ctx context.Context) error {
	if err := n.requireLeader(); err != nil || n.env.singleNode {
		return err
	}
	if err := n.readIndex.confirm(ctx); err != nil {
		return err
	}
	if n.transfers.busy.Load() > 0 {
		// The one that is to lead asks for votes at once, also those who have just
		// said that this node leads.
		return fmt.Errorf("%w: leadership is being handed over", txn.ErrUnavailable)
	}
	return n.requireLeader()
}
