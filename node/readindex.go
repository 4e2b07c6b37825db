package node

import (
	"context"
	"fmt"
	"sync"

	"github.com/txmgr/txmgr/txn"
)

// readIndex verifies with the other nodes that this one still leads, once for any number of
// waiting readers: those that arrive while a round is under way share the next one, because
// an answer proves leadership only at some moment after its round began, which may be before they
// arrived.
type readIndex struct {
	verifyLeader func() error // [Node.verifyLeader], in ack_tracker.go: it distrusts raft's own

	mu   sync.Mutex
	next *readRound // guarded by mu: not begun yet; nil when no reader waits for it
	busy bool       // guarded by mu: a round is under way

	closed bool           // guarded by mu
	wg     sync.WaitGroup // the goroutine that runs the rounds
}

var errStopping = fmt.Errorf("%w: the coordinator is stopping", txn.ErrUnavailable)

type readRound struct {
	finished chan struct{}
	err      error // set before finished is closed
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

// run runs rounds until no reader waits.
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

// verifyOnce runs one round, unless the readIndex is closed.
func (v *readIndex) verifyOnce() error {
	v.mu.Lock()
	closed := v.closed
	v.mu.Unlock()
	if closed {
		return errStopping
	}
	return v.verifyLeader()
}

// close refuses further reads, and waits for the end of the round that is under way.
func (v *readIndex) close() {
	v.mu.Lock()
	v.closed = true
	v.mu.Unlock()
	v.wg.Wait()
}

// requireReadable reports whether the state of this node may be read: because this node leads,
// which a quorum has confirmed after the call, or because the caller accepts an older state. In
// the former case everything that was acknowledged before the call has been applied here: by this
// leader, or by an earlier one, all of whose entries this one had applied before it began to lead.
func (n *Node) requireReadable(ctx context.Context) error {
	if txn.StaleAllowed(ctx) {
		return n.logFailure()
	}
	return n.confirmLeadership(ctx)
}

// confirmLeadership verifies that this node led at some moment after the call.
func (n *Node) confirmLeadership(ctx context.Context) error {
	if err := n.requireLeader(); err != nil || n.env.singleNode {
		return err
	}
	if err := n.readIndex.confirm(ctx); err != nil {
		return err
	}
	if n.cluster.Transferring() {
		// The transfer target asks for votes at once, also from nodes that have just
		// confirmed that this node leads.
		return fmt.Errorf("%w: leadership transfer in progress", txn.ErrUnavailable)
	}
	return n.requireLeader()
}
