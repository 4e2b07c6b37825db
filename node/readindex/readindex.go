// Package readindex makes reads of the leader linearizable, as raft's ReadIndex does: a read is answered
// when a quorum has acknowledged, to requests that were sent after the read arrived, that this node still
// leads. [ReadIndex] shares one round between waiting readers; [AckTracker] knows which
// acknowledgements are recent enough.
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
func (v *ReadIndex) Confirm(ctx context.Context) error {
	v.mu.Lock()
	if v.closed {
		v.mu.Unlock()
		return errStopping
	}
	q := v.next
	if q == nil {
		q = &round{finished: make(chan struct{})}
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
func (v *ReadIndex) run() {
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

// verifyOnce runs one round, unless the ReadIndex is closed.
func (v *ReadIndex) verifyOnce() error {
	v.mu.Lock()
	closed := v.closed
	v.mu.Unlock()
	if closed {
		return errStopping
	}
	return v.verifyLeader()
}

// Close refuses further reads, and waits for the end of the round that is under way.
func (v *ReadIndex) Close() {
	v.mu.Lock()
	v.closed = true
	v.mu.Unlock()
	v.wg.Wait()
}
