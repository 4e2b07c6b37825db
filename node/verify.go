package node

import (
	"context"
	"fmt"
	"sync"

	"github.com/txmgr/txmgr/txn"
)

// verifier asks the other nodes whether this one still leads, once for however many
// readers wait: those that come while a question is on its way share the next one,
// because an answer speaks only of the time after its question.
type verifier struct {
	ask func() error

	mu   sync.Mutex
	next *question // guarded by mu: not asked yet; nil when nobody waits for it
	busy bool      // guarded by mu: a question is on its way

	closed bool           // guarded by mu
	asking sync.WaitGroup // the goroutine that asks
}

var errStopping = fmt.Errorf("%w: the coordinator is stopping", txn.ErrUnavailable)

type question struct {
	answered chan struct{}
	err      error // set before answered is closed
}

// verify returns nil when this node led at some moment after the call.
func (v *verifier) verify(ctx context.Context) error {
	v.mu.Lock()
	if v.closed {
		v.mu.Unlock()
		return errStopping
	}
	q := v.next
	if q == nil {
		q = &question{answered: make(chan struct{})}
		v.next = q
	}
	if !v.busy {
		v.busy = true
		v.asking.Go(v.run)
	}
	v.mu.Unlock()
	select {
	case <-q.answered:
		return q.err
	case <-ctx.Done():
		return fmt.Errorf("%w: %w before a quorum had confirmed that this node leads", txn.ErrUnavailable, context.Cause(ctx))
	}
}

// run asks until nobody waits.
func (v *verifier) run() {
	for {
		v.mu.Lock()
		q := v.next
		v.next = nil
		v.busy = q != nil
		v.mu.Unlock()
		if q == nil {
			return
		}
		if err := v.put(); err != nil {
			q.err = fmt.Errorf("%w: %w", txn.ErrUnavailable, err)
		}
		close(q.answered)
	}
}

// put asks, unless the verifier is closed.
func (v *verifier) put() error {
	v.mu.Lock()
	closed := v.closed
	v.mu.Unlock()
	if closed {
		return errStopping
	}
	return v.ask()
}

// close refuses further questions, and waits for the answer to the one that is on its
// way.
func (v *verifier) close() {
	v.mu.Lock()
	v.closed = true
	v.mu.Unlock()
	v.asking.Wait()
}

// readable says whether the state here may be read: because this node leads, which a
// quorum has confirmed after the call, or because the caller is content with an
// older state. Whatever was acknowledged before the call was applied here then: by
// this leader, or by an earlier one, all of whose entries this one has applied
// before it began to lead.
func (n *Node) readable(ctx context.Context) error {
	if txn.StaleAllowed(ctx) {
		return n.broken()
	}
	return n.confirmed(ctx)
}

// confirmed makes sure that this node led at some moment after the call.
func (n *Node) confirmed(ctx context.Context) error {
	if err := n.serves(); err != nil || n.storage.alone {
		return err
	}
	if err := n.reads.verify(ctx); err != nil {
		return err
	}
	if n.transfers.busy.Load() > 0 {
		// The one that is to lead asks for votes at once, also those who have just
		// said that this node leads.
		return fmt.Errorf("%w: leadership is being handed over", txn.ErrUnavailable)
	}
	return n.serves()
}
