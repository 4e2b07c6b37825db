package proposal

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/hashicorp/raft"

	"github.com/txmgr/txmgr/internal/latency"
	"github.com/txmgr/txmgr/node/ticks"
	"github.com/txmgr/txmgr/txn"
	"github.com/txmgr/txmgr/txn/machine"
)

var errQueueFull = fmt.Errorf("%w: too much load: %d full batches wait for the log", txn.ErrUnavailable, maxQueuedBatches)

// Queue packs the commands of all waiting callers into one log entry while the entry
// before it is in flight: group commit without a timer. A single caller's command is proposed at
// once. Entries keep their order, and an entry follows one in flight only if it is no smaller:
// proposed earlier it would cost the disk as much and carry less.
type Queue struct {
	raft  raftLog
	clock *ticks.Clock
	wall  func() time.Time

	mu        sync.Mutex
	term      uint64   // the term in which this node leads and is ready; 0 when it does not
	batches   []*batch // guarded by mu: filled front to back
	requested requested
	inflight  inflight
	sweeping  bool // a timer is running that will look at the callers' contexts

	wake       chan struct{}      // capacity 1
	inflightCh chan inflightEntry // unbuffered: one is awaited, one waits here, two are in flight
	stop       chan struct{}
	done       sync.WaitGroup

	pool sync.Pool

	stats counters
}

// raftLog is what the queue needs of raft.
type raftLog interface {
	ApplyLog(entry raft.Log, timeout time.Duration) raft.ApplyFuture
	CurrentTerm() uint64
}

// inflight are the entries on their way.
type inflight struct {
	batches []*batch                      // whose callers do not all have their answer yet, first to last
	last    struct{ commands, bytes int } // the size of the latest
}

// New makes a queue, and starts the goroutines that propose its batches and answer their callers.
// It is closed to callers until [Queue.SetTerm]; end it with [Queue.Close].
func New(r *raft.Raft, c *ticks.Clock, wall func() time.Time) *Queue {
	q := &Queue{
		raft: r, clock: c, wall: wall, stats: counters{start: time.Now(), entryDurations: latency.New()},
		wake: make(chan struct{}, 1), inflightCh: make(chan inflightEntry), stop: make(chan struct{}),
	}
	q.pool.New = func() any { return &proposal{done: make(chan proposalResult, 1)} }
	q.done.Add(2)
	go q.send()
	go q.await()
	return q
}

// Propose waits until the command is applied. An error means that it was not,
// or, if it is [txn.ErrInDoubt], that this is unknown.
func (q *Queue) Propose(ctx context.Context, c machine.Command) (machine.Result, error) {
	return q.ProposeInTerm(ctx, 0, c, nil)
}

// ProposeInTerm is [Queue.Propose], in the given term only, unless that is 0: a tick computed from the
// clock of one term means something else in another. It calls onDone, unless that is nil, when
// the command is applied, or certainly will not be applied by this node; also when ctx has ended
// before.
func (q *Queue) ProposeInTerm(ctx context.Context, term uint64, c machine.Command, onDone func()) (machine.Result, error) {
	p := q.pool.Get().(*proposal)
	p.onDone = onDone
	if err := q.start(ctx, term, c, p); err != nil {
		q.pool.Put(p)
		return machine.Result{}, err
	}
	select {
	case o := <-p.done:
		q.pool.Put(p)
		return o.result, o.err
	case <-ctx.Done():
		// p is not reused: its answer may still arrive.
		return machine.Result{}, interrupted(ctx)
	}
}

// start puts a command into the queue, unless ctx has ended. After an error p gets no answer.
func (q *Queue) start(ctx context.Context, term uint64, c machine.Command, p *proposal) error {
	p.pending = &q.stats.pending
	p.pending.Add(1)
	err := ctx.Err()
	if err != nil {
		err = fmt.Errorf("%w: %w before the command was proposed", txn.ErrUnavailable, context.Cause(ctx))
	} else {
		err = q.put(term, c, p)
	}
	if err != nil {
		p.finish()
	}
	return err
}

func (q *Queue) put(term uint64, c machine.Command, p *proposal) error {
	q.mu.Lock()
	if q.term == 0 || term != 0 && term != q.term {
		q.mu.Unlock()
		return fmt.Errorf("%w: this node does not lead", txn.ErrUnavailable)
	}
	last, err := q.appendCommandLocked(c)
	if err != nil {
		q.mu.Unlock()
		return err
	}
	last.callers = append(last.callers, p)
	last.commands++
	if p.delayed {
		q.delayLocked(last, p)
	}
	if p.answer != nil {
		q.sweepLocked()
	}
	switch c.(type) {
	case machine.Commit, machine.Vote:
		last.hasDecision = true
	}
	// The others are sent with it, or when the entry in flight has completed.
	leaves := !p.delayed && last.commands-last.delayed == 1 || last.commands == q.inflight.last.commands
	q.mu.Unlock()
	if leaves {
		q.signal()
	}
	return nil
}

// RequestTick requests an entry soon, which may be empty, to carry the tick.
func (q *Queue) RequestTick() {
	q.mu.Lock()
	q.requested.tick = true
	q.mu.Unlock()
	q.signal()
}

func (q *Queue) signal() {
	select {
	case q.wake <- struct{}{}:
	default:
	}
}

// SetTerm opens the queue to callers for a term, or closes it with 0. When it closes, waiting
// batches are rejected: none of them was proposed.
func (q *Queue) SetTerm(term uint64) {
	q.mu.Lock()
	q.term, q.requested.tick = term, false
	var rejected []*batch
	if term == 0 {
		rejected, q.batches = q.batches, nil
	}
	q.mu.Unlock()
	rejectBatches(rejected)
}

// Close ends the goroutines. Before it the queue must be closed to callers; see [Queue.SetTerm].
func (q *Queue) Close() {
	close(q.stop)
	q.done.Wait()
}
