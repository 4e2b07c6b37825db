package node

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/raft"

	"github.com/txmgr/txmgr/internal/failpoint"
	"github.com/txmgr/txmgr/internal/latency"
	"github.com/txmgr/txmgr/raftfsm"
	"github.com/txmgr/txmgr/txn"
	"github.com/txmgr/txmgr/txn/machine"
)

const (
	// maxBatch and maxBatchBytes close a batch; its last command may exceed
	// the bytes, but never the entry's own limit.
	maxBatch      = 4096
	maxBatchBytes = 1 << 20
	// maxYields is how often other goroutines may run before an entry is proposed. In a
	// busy process one yield can take milliseconds.
	maxYields = 3
	// maxQueuedBatches limits the queue: when this many batches wait, further commands are
	// rejected.
	maxQueuedBatches = 64
)

var errQueueFull = fmt.Errorf("%w: too much load: %d full batches wait for the log", txn.ErrUnavailable, maxQueuedBatches)

// proposal is one caller that waits for the result of its command.
type proposal struct {
	done   chan proposalResult // capacity 1: sending an answer never blocks
	onDone func()              // called before the answer, whether or not the caller still waits; may be nil

	pending *atomic.Int64 // of the queue
}

type proposalResult struct {
	result machine.Result
	err    error
}

// batch is the content of one log entry.
type batch struct {
	buf         []byte
	callers     []*proposal
	commands    int
	hasDecision bool   // contains a commit; for the crash tests
	term        uint64 // in which it is proposed
}

// proposalQueue packs the commands of all waiting callers into one log entry while the entry
// before it is in flight: group commit without a timer. A single caller's command is proposed at
// once. Entries keep their order, and an entry follows one in flight only if it is no smaller:
// proposed earlier it would cost the disk as much and carry less.
type proposalQueue struct {
	raft        *raft.Raft
	currentTerm func() uint64 // raft's term
	clock       *clock
	wall        func() time.Time

	mu            sync.Mutex
	term          uint64   // the term in which this node leads and is ready; 0 when it does not
	queue         []*batch // guarded by mu: filled front to back
	tick          bool     // an entry is requested even without a command
	sizeHint      int      // bytes that the last batch needed
	inflight      int      // entries whose callers have no answer yet
	lastBatchSize int      // commands of the latest entry in flight

	wake       chan struct{}      // capacity 1
	inflightCh chan inflightEntry // unbuffered: one is awaited, one waits here, two are in flight
	stop       chan struct{}
	done       sync.WaitGroup

	pool sync.Pool

	pending        atomic.Int64       // proposals without an answer
	completed      atomic.Uint64      // entries whose callers have been answered
	entryDurations *latency.Histogram // of entries: from the proposal until they were applied

	commands, entries, tickEntries, bytes atomic.Uint64
	lastEntry                             atomic.Int64 // nanoseconds since start
	start                                 time.Time
}

// inflightEntry is an entry that was proposed to raft.
type inflightEntry struct {
	future raft.ApplyFuture
	batch  *batch
	began  time.Time
}

func newProposalQueue(r *raft.Raft, c *clock, wall func() time.Time) *proposalQueue {
	b := &proposalQueue{
		raft: r, currentTerm: r.CurrentTerm, clock: c, wall: wall, start: time.Now(), entryDurations: latency.New(),
		wake: make(chan struct{}, 1), inflightCh: make(chan inflightEntry), stop: make(chan struct{}),
	}
	b.pool.New = func() any { return &proposal{done: make(chan proposalResult, 1), pending: &b.pending} }
	b.done.Add(2)
	go b.send()
	go b.await()
	return b
}

// propose waits until the command is applied. An error means that it was not,
// or, if it is [txn.ErrInDoubt], that this is unknown.
func (b *proposalQueue) propose(ctx context.Context, c machine.Command) (machine.Result, error) {
	return b.proposeInTerm(ctx, 0, c, nil)
}

// proposeInTerm is propose, in the given term only, unless that is 0: a tick computed from the
// clock of one term means something else in another. It calls onDone, unless that is nil, when
// the command is applied, or certainly will not be applied by this node; also when ctx has ended
// before.
func (b *proposalQueue) proposeInTerm(ctx context.Context, term uint64, c machine.Command, onDone func()) (machine.Result, error) {
	p := b.pool.Get().(*proposal)
	p.onDone = onDone
	b.pending.Add(1)
	err := ctx.Err()
	if err != nil {
		err = fmt.Errorf("%w: %w before the command was proposed", txn.ErrUnavailable, context.Cause(ctx))
	} else {
		err = b.put(term, c, p)
	}
	if err != nil {
		p.finish()
		b.pool.Put(p)
		return machine.Result{}, err
	}
	select {
	case o := <-p.done:
		b.pool.Put(p)
		return o.result, o.err
	case <-ctx.Done():
		// p is not reused: its answer may still arrive.
		return machine.Result{}, fmt.Errorf("%w: %w while the command was on its way", txn.ErrInDoubt, context.Cause(ctx))
	}
}

func (b *proposalQueue) put(term uint64, c machine.Command, p *proposal) error {
	b.mu.Lock()
	if b.term == 0 || term != 0 && term != b.term {
		b.mu.Unlock()
		return fmt.Errorf("%w: this node does not lead", txn.ErrUnavailable)
	}
	last, err := b.appendCommandLocked(c)
	if err != nil {
		b.mu.Unlock()
		return err
	}
	last.callers = append(last.callers, p)
	last.commands++
	switch c.(type) {
	case machine.Commit, machine.Vote:
		last.hasDecision = true
	}
	// The others are sent with it, or when the entry in flight has completed.
	leaves := last.commands == 1 || last.commands == b.lastBatchSize
	b.mu.Unlock()
	if leaves {
		b.signal()
	}
	return nil
}

// appendCommandLocked appends a command to the open batch, or to a new one when the entry would
// become too large. The caller holds mu.
func (b *proposalQueue) appendCommandLocked(c machine.Command) (*batch, error) {
	l := b.last()
	if l == nil {
		return nil, errQueueFull
	}
	start := len(l.buf)
	l.buf = raftfsm.AppendCommand(l.buf, c)
	if len(l.buf) <= raftfsm.MaxEntry {
		return l, nil
	}
	command := l.buf[start:]
	l.buf = l.buf[:start]
	if len(command) > raftfsm.MaxEntry-raftfsm.HeaderSize {
		return nil, fmt.Errorf("%w: the call has %d bytes; at most %d", txn.ErrInvalid, len(command), raftfsm.MaxEntry-raftfsm.HeaderSize)
	}
	if len(b.queue) == maxQueuedBatches {
		return nil, errQueueFull
	}
	l = b.newBatchLocked()
	l.buf = append(l.buf, command...)
	return l, nil
}

// last returns the open batch; nil when the queue is full. The caller holds mu.
func (b *proposalQueue) last() *batch {
	if n := len(b.queue); n > 0 {
		if l := b.queue[n-1]; l.commands < maxBatch && len(l.buf) < maxBatchBytes {
			return l
		}
		if n == maxQueuedBatches {
			return nil
		}
	}
	return b.newBatchLocked()
}

// newBatchLocked appends a new batch to the queue. Its buffer is always new: raft and the
// decoded entry may refer to the old ones. The caller holds mu.
func (b *proposalQueue) newBatchLocked() *batch {
	l := &batch{buf: raftfsm.AppendHeader(make([]byte, 0, b.sizeHint))}
	b.queue = append(b.queue, l)
	return l
}

// requestTick requests an entry soon, which may be empty, to carry the tick.
func (b *proposalQueue) requestTick() {
	b.mu.Lock()
	b.tick = true
	b.mu.Unlock()
	b.signal()
}

func (b *proposalQueue) signal() {
	select {
	case b.wake <- struct{}{}:
	default:
	}
}

// setTerm opens the queue to callers for a term, or closes it with 0. When it closes, waiting
// batches are rejected: none of them was proposed.
func (b *proposalQueue) setTerm(term uint64) {
	b.mu.Lock()
	b.term, b.tick = term, false
	var rejected []*batch
	if term == 0 {
		rejected, b.queue = b.queue, nil
	}
	b.mu.Unlock()
	rejectBatches(rejected)
}

// rejectBatches answers callers whose commands were not proposed.
func rejectBatches(batches []*batch) {
	for _, l := range batches {
		l.answer(nil, fmt.Errorf("%w: this node does not lead any more", txn.ErrUnavailable))
	}
}

// send proposes batch after batch and stamps each with the current tick.
func (b *proposalQueue) send() {
	defer b.done.Done()
	defer close(b.inflightCh)
	for {
		select {
		case <-b.wake:
		case <-b.stop:
			return
		}
		b.coalesce()
		failpoint.Hit("batch")
		for l := b.next(); l != nil; l = b.next() {
			tick, _ := b.clock.now()
			if err := raftfsm.FinishEntry(l.buf, tick, b.wall().UnixMilli(), l.commands); err != nil {
				l.answer(nil, fmt.Errorf("%w: %w", txn.ErrInvalid, err))
				b.entryCompleted()
				continue
			}
			b.count(l)
			f := inflightEntry{began: time.Now(), batch: l}
			f.future = b.raft.ApplyLog(raftfsm.WithTerm(l.buf, l.term), 0)
			if l.hasDecision {
				failpoint.Hit("decision proposed")
			}
			b.inflightCh <- f
		}
	}
}

// coalesce yields to callers that are about to propose, as long as more of them arrive: a fuller
// entry for the price of a few yields, and of none when no other goroutine is ready to run.
func (b *proposalQueue) coalesce() {
	for had, yields := 0, 0; yields < maxYields; yields++ {
		runtime.Gosched()
		b.mu.Lock()
		got := 0
		if len(b.queue) > 0 {
			got = b.queue[0].commands
		}
		b.mu.Unlock()
		if got == had {
			return
		}
		had = got
	}
}

// next takes the first batch; nil when there is nothing to write, or not yet. Nothing is written
// in a term in which this node has not taken over: its clock may be ahead of that of a leader in
// between, whose entries it has not applied yet. Waiting callers are rejected then: one of them
// may be the goroutine that gives up leadership.
func (b *proposalQueue) next() *batch {
	b.mu.Lock()
	if b.term != b.currentTerm() {
		rejected := b.queue
		b.queue, b.tick = nil, false
		b.mu.Unlock()
		rejectBatches(rejected)
		return nil
	}
	defer b.mu.Unlock()
	if b.term == 0 || len(b.queue) == 0 && !b.tick {
		return nil
	}
	// A second batch in the queue means that the first one is full.
	if b.inflight > 0 && len(b.queue) < 2 && (len(b.queue) == 0 || b.queue[0].commands < b.lastBatchSize) {
		return nil
	}
	if len(b.queue) == 0 {
		b.last()
	}
	l := b.queue[0]
	l.term = b.term
	b.queue = append(b.queue[:0], b.queue[1:]...)
	b.tick = false
	b.sizeHint = len(l.buf)
	b.inflight++
	b.lastBatchSize = l.commands
	return l
}

// entryCompleted records that the callers of an entry have been answered.
func (b *proposalQueue) entryCompleted() {
	b.completed.Add(1)
	b.mu.Lock()
	b.inflight--
	b.mu.Unlock()
	b.signal()
}

func (b *proposalQueue) count(l *batch) {
	b.commands.Add(uint64(l.commands))
	b.entries.Add(1)
	b.bytes.Add(uint64(len(l.buf)))
	if l.commands == 0 {
		b.tickEntries.Add(1)
	}
	b.lastEntry.Store(int64(time.Since(b.start)))
}

// sinceLastEntry is the time since this node last proposed an entry.
func (b *proposalQueue) sinceLastEntry() time.Duration {
	return time.Since(b.start) - time.Duration(b.lastEntry.Load())
}

// await answers the callers of each entry once it is applied, in order.
func (b *proposalQueue) await() {
	defer b.done.Done()
	for f := range b.inflightCh {
		if f.answer() {
			b.entryDurations.Record(time.Since(f.began), 1)
		}
		b.entryCompleted()
	}
}

// answer waits until the entry is applied, and reports whether it was.
func (f inflightEntry) answer() bool {
	if err := f.future.Error(); err != nil {
		f.batch.answer(nil, proposalError(err))
		return false
	}
	switch r := f.future.Response().(type) {
	case *raftfsm.Applied:
		f.batch.answer(r.Effects.Results, nil)
	case error:
		f.batch.answer(nil, r)
	default:
		f.batch.answer(nil, fmt.Errorf("log entry answered %T", r))
	}
	return true
}

// proposalError converts the error of a failed proposal for its callers.
func proposalError(err error) error {
	switch {
	case errors.Is(err, raft.ErrNotLeader), errors.Is(err, raft.ErrLeadershipTransferInProgress), errors.Is(err, raft.ErrEnqueueTimeout):
		return fmt.Errorf("%w: %w", txn.ErrUnavailable, err)
	default:
		// Appended but not known to be committed: it may be applied yet.
		return fmt.Errorf("%w: %w", txn.ErrInDoubt, err)
	}
}

// finish records that the proposal has its answer, and calls onDone. It is called once.
func (p *proposal) finish() {
	p.pending.Add(-1)
	if p.onDone != nil {
		p.onDone()
		p.onDone = nil
	}
}

func (l *batch) answer(results []machine.Result, err error) {
	for i, p := range l.callers {
		p.finish()
		o := proposalResult{err: err}
		if err == nil {
			o.result = results[i]
		}
		p.done <- o
	}
}

// close ends the goroutines. Before it the queue must be closed to callers; see setTerm.
func (b *proposalQueue) close() {
	close(b.stop)
	b.done.Wait()
}
