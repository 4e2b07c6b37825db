package readindex

import (
	"context"
	"fmt"
	"sync"

	"github.com/txmgr/txmgr/txn"
)

// ReadIndex verifies with the other nodes that this one still leads, once for any number of
// waiting readers: those that arrive while a round is under way share the next one, because
// an answer proves leadership only at some moment after its round began, which may be before they
// arrived.
type ReadIndex struct {
	verifyLeader func() error // see [AckTracker.VerifyLeader]

	mu   sync.Mutex
	next *round // guarded by mu: not begun yet; nil when no reader waits for it
	busy bool   // guarded by mu: a round is under way

	closed bool           // guarded by mu
	wg     sync.WaitGroup // the goroutine that runs the rounds
}

var errStopping = fmt.Errorf("%w: the coordinator is stopping", txn.ErrUnavailable)

type round struct {
	finished chan struct{}
	err      error // set before finished is closed
}

// New makes a ReadIndex; verifyLeader runs one round.
func New(verifyLeader func() error) *ReadIndex { return &ReadIndex{verifyLeader: verifyLeader} }

// Confirm returns nil when this node led at some moment after the call.
func (r *ReadIndex) Confirm(ctx context.Context) error {
	r.mu.Lock()
	if r.closed {
		r.mu.Unlock()
		return errStopping
	}
	q := r.next
	if q == nil {
		q = &round{finished: make(chan struct{})}
		r.next = q
	}
	if !r.busy {
		r.busy = true
		r.wg.Go(r.run)
	}
	r.mu.Unlock()
	select {
	case <-q.finished:
		return q.err
	case <-ctx.Done():
		return fmt.Errorf("%w: %w before a quorum had confirmed that this node leads", txn.ErrUnavailable, context.Cause(ctx))
	}
}

// run runs rounds until no reader waits.
func (r *ReadIndex) run() {
	for {
		r.mu.Lock()
		q := r.next
		r.next = nil
		r.busy = q != nil
		r.mu.Unlock()
		if q == nil {
			return
		}
		if err := r.verifyOnce(); err != nil {
			q.err = fmt.Errorf("%w: %w", txn.ErrUnavailable, err)
		}
		close(q.finished)
	}
}

// verifyOnce runs one round, unless the ReadIndex is closed.
func (r *ReadIndex) verifyOnce() error {
	r.mu.Lock()
	closed := r.closed
	r.mu.Unlock()
	if closed {
		return errStopping
	}
	return r.verifyLeader()
}

// Close refuses further reads, and waits for the end of the round that is under way.
func (r *ReadIndex) Close() {
	r.mu.Lock()
	r.closed = true
	r.mu.Unlock()
	r.wg.Wait()
}
