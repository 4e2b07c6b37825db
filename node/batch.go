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
	// maxBatch and maxBatchBytes close a batch; one command more may overshoot
	// the bytes, never the entry's own limit.
	maxBatch      = 4096
	maxBatchBytes = 1 << 20
	// maxTurns is how often everybody else may run before an entry leaves. In a
	// busy process a turn can take milliseconds.
	maxTurns = 3
	// maxWaiting sheds load before it is proposed: this many batches may wait.
	maxWaiting = 64
)

var errFull = fmt.Errorf("%w: too much load: %d full batches wait for the log", txn.ErrUnavailable, maxWaiting)

// proposal is one caller that waits for the result of its command.
type proposal struct {
	done chan outcome // capacity 1: an answer never waits for its caller
	over func()       // called before the answer, whether somebody still waits or not; may be nil

	pending *atomic.Int64 // of the batcher
}

type outcome struct {
	result machine.Result
	err    error
}

// batch is what goes into one log entry.
type batch struct {
	buf      []byte
	waiting  []*proposal
	commands int
	decides  bool   // has a commit in it; for the crash tests
	term     uint64 // in which it leaves
}

// batcher packs the commands of all callers that wait into one log entry while
// the entry before it is on its way: group commit without a timer. A lone
// caller's command leaves at once. An entry overtakes none, and follows one that
// is still on its way only if it is no smaller: one that left earlier would cost
// the disk as much and carry less.
type batcher struct {
	raft    *raft.Raft
	current func() uint64 // raft's term
	clock   *clock
	wall    func() time.Time

	mu     sync.Mutex
	term   uint64   // guarded by mu: in which this node leads and is ready; 0 when it does not
	queue  []*batch // guarded by mu: filled front to back
	tick   bool     // guarded by mu: an entry is wanted even without a command
	room   int      // guarded by mu: bytes that the last batch needed
	flying int      // guarded by mu: entries whose callers have no answer yet
	flew   int      // guarded by mu: commands of the latest of them

	wake    chan struct{} // capacity 1
	flights chan flight   // unbuffered: one is awaited, one waits here, two are on their way
	stop    chan struct{}
	done    sync.WaitGroup

	proposals sync.Pool

	pending  atomic.Int64       // proposals without an answer
	landings atomic.Uint64      // entries whose callers have their answers
	took     *latency.Histogram // of entries: until they were applied

	commands, entries, tickEntries, bytes atomic.Uint64
	lastEntry                             atomic.Int64 // nanoseconds since start
	start                                 time.Time
}

// flight is an entry on its way through raft.
type flight struct {
	future raft.ApplyFuture
	batch  *batch
	began  time.Time
}

func newBatcher(r *raft.Raft, c *clock, wall func() time.Time) *batcher {
	b := &batcher{
		raft: r, current: r.CurrentTerm, clock: c, wall: wall, start: time.Now(), took: latency.New(),
		wake: make(chan struct{}, 1), flights: make(chan flight), stop: make(chan struct{}),
	}
	b.proposals.New = func() any { return &proposal{done: make(chan outcome, 1), pending: &b.pending} }
	b.done.Add(2)
	go b.send()
	go b.await()
	return b
}

// propose waits until the command is applied. An error means that it was not,
// or, when it is [txn.ErrInDoubt], that this is not known.
func (b *batcher) propose(ctx context.Context, c machine.Command) (machine.Result, error) {
	return b.proposeIn(ctx, 0, c, nil)
}

// proposeIn is propose, in the given term only, unless that is 0: what was computed
// from the clock of one term means something else in another. It calls over, unless
// that is nil, when the command is applied, or surely will not be by this node; also
// when ctx has ended before.
func (b *batcher) proposeIn(ctx context.Context, term uint64, c machine.Command, over func()) (machine.Result, error) {
	p := b.proposals.Get().(*proposal)
	p.over = over
	b.pending.Add(1)
	err := ctx.Err()
	if err != nil {
		err = fmt.Errorf("%w: %w before the command was proposed", txn.ErrUnavailable, context.Cause(ctx))
	} else {
		err = b.put(term, c, p)
	}
	if err != nil {
		p.end()
		b.proposals.Put(p)
		return machine.Result{}, err
	}
	select {
	case o := <-p.done:
		b.proposals.Put(p)
		return o.result, o.err
	case <-ctx.Done():
		// p is not used again: its answer may still come.
		return machine.Result{}, fmt.Errorf("%w: %w while the command was on its way", txn.ErrInDoubt, context.Cause(ctx))
	}
}

func (b *batcher) put(term uint64, c machine.Command, p *proposal) error {
	b.mu.Lock()
	if b.term == 0 || term != 0 && term != b.term {
		b.mu.Unlock()
		return fmt.Errorf("%w: this node does not lead", txn.ErrUnavailable)
	}
	last, err := b.pack(c)
	if err != nil {
		b.mu.Unlock()
		return err
	}
	last.waiting = append(last.waiting, p)
	last.commands++
	switch c.(type) {
	case machine.Commit, machine.Vote:
		last.decides = true
	}
	// The others leave with it, or when what is on its way has arrived.
	leaves := last.commands == 1 || last.commands == b.flew
	b.mu.Unlock()
	if leaves {
		b.poke()
	}
	return nil
}

// pack appends a command to the batch that is being filled, or to a new one when
// the entry would become too large. The caller holds mu.
func (b *batcher) pack(c machine.Command) (*batch, error) {
	l := b.last()
	if l == nil {
		return nil, errFull
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
	if len(b.queue) == maxWaiting {
		return nil, errFull
	}
	l = b.append()
	l.buf = append(l.buf, command...)
	return l, nil
}

// last gives the batch that is being filled; nil when the queue is full. The
// caller holds mu.
func (b *batcher) last() *batch {
	if n := len(b.queue); n > 0 {
		if l := b.queue[n-1]; l.commands < maxBatch && len(l.buf) < maxBatchBytes {
			return l
		}
		if n == maxWaiting {
			return nil
		}
	}
	return b.append()
}

// append puts a new batch at the rear. Its buffer is fresh each time: raft and the
// decoded entry may refer to the old ones. The caller holds mu.
func (b *batcher) append() *batch {
	l := &batch{buf: raftfsm.AppendHeader(make([]byte, 0, b.room))}
	b.queue = append(b.queue, l)
	return l
}

// wantTick asks for an entry soon, which may be empty, to carry the tick.
func (b *batcher) wantTick() {
	b.mu.Lock()
	b.tick = true
	b.mu.Unlock()
	b.poke()
}

func (b *batcher) poke() {
	select {
	case b.wake <- struct{}{}:
	default:
	}
}

// lead opens the batcher to callers for a term, or closes it with 0. On closing, those that
// wait for their turn are refused: nothing of theirs was proposed.
func (b *batcher) lead(term uint64) {
	b.mu.Lock()
	b.term, b.tick = term, false
	var refused []*batch
	if term == 0 {
		refused, b.queue = b.queue, nil
	}
	b.mu.Unlock()
	refuse(refused)
}

// refuse answers callers of whom nothing was proposed.
func refuse(batches []*batch) {
	for _, l := range batches {
		l.answer(nil, fmt.Errorf("%w: this node does not lead any more", txn.ErrUnavailable))
	}
}

// send seals batch after batch, stamping each with the tick of this moment.
func (b *batcher) send() {
	defer b.done.Done()
	defer close(b.flights)
	for {
		select {
		case <-b.wake:
		case <-b.stop:
			return
		}
		b.gather()
		failpoint.Hit("batch")
		for l := b.next(); l != nil; l = b.next() {
			tick, _ := b.clock.now()
			if err := raftfsm.SealEntry(l.buf, tick, b.wall().UnixMilli(), l.commands); err != nil {
				l.answer(nil, fmt.Errorf("%w: %w", txn.ErrInvalid, err))
				b.landed()
				continue
			}
			b.count(l)
			f := flight{began: time.Now(), batch: l}
			f.future = b.raft.ApplyLog(raftfsm.Stamped(l.buf, l.term), 0)
			if l.decides {
				failpoint.Hit("decision proposed")
			}
			b.flights <- f
		}
	}
}

// gather lets callers that are about to propose do so first, for as long as more
// come: a fuller entry for the price of a few turns, and none when nobody else
// wants to run.
func (b *batcher) gather() {
	for had, turns := 0, 0; turns < maxTurns; turns++ {
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

// next takes the front batch; nil when there is nothing to write, or not yet. Nothing is
// written in a term in which this node has not taken over: its clock may be ahead of that
// of a leader in between, whose entries it has not applied yet. Who waits then is refused:
// it may be the one that lays leadership down.
func (b *batcher) next() *batch {
	b.mu.Lock()
	if b.term != b.current() {
		refused := b.queue
		b.queue, b.tick = nil, false
		b.mu.Unlock()
		refuse(refused)
		return nil
	}
	defer b.mu.Unlock()
	if b.term == 0 || len(b.queue) == 0 && !b.tick {
		return nil
	}
	// A second batch in the queue says that the first one is full.
	if b.flying > 0 && len(b.queue) < 2 && (len(b.queue) == 0 || b.queue[0].commands < b.flew) {
		return nil
	}
	if len(b.queue) == 0 {
		b.last()
	}
	l := b.queue[0]
	l.term = b.term
	b.queue = append(b.queue[:0], b.queue[1:]...)
	b.tick = false
	b.room = len(l.buf)
	b.flying++
	b.flew = l.commands
	return l
}

// landed says that the callers of an entry have their answers.
func (b *batcher) landed() {
	b.landings.Add(1)
	b.mu.Lock()
	b.flying--
	b.mu.Unlock()
	b.poke()
}

func (b *batcher) count(l *batch) {
	b.commands.Add(uint64(l.commands))
	b.entries.Add(1)
	b.bytes.Add(uint64(len(l.buf)))
	if l.commands == 0 {
		b.tickEntries.Add(1)
	}
	b.lastEntry.Store(int64(time.Since(b.start)))
}

// sinceLastEntry is the time since this node proposed an entry.
func (b *batcher) sinceLastEntry() time.Duration {
	return time.Since(b.start) - time.Duration(b.lastEntry.Load())
}

// await answers the callers of each entry once it is applied, in order.
func (b *batcher) await() {
	defer b.done.Done()
	for f := range b.flights {
		if f.answer() {
			b.took.Record(time.Since(f.began), 1)
		}
		b.landed()
	}
}

// answer waits until the entry is applied, and reports whether it was.
func (f flight) answer() bool {
	if err := f.future.Error(); err != nil {
		f.batch.answer(nil, refusal(err))
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

// refusal says what a failed proposal means to its callers.
func refusal(err error) error {
	switch {
	case errors.Is(err, raft.ErrNotLeader), errors.Is(err, raft.ErrLeadershipTransferInProgress), errors.Is(err, raft.ErrEnqueueTimeout):
		return fmt.Errorf("%w: %w", txn.ErrUnavailable, err)
	default:
		// Appended but not known to be committed: it may be applied yet.
		return fmt.Errorf("%w: %w", txn.ErrInDoubt, err)
	}
}

// end says that the proposal has its answer, and calls over. It is called once.
func (p *proposal) end() {
	p.pending.Add(-1)
	if p.over != nil {
		p.over()
		p.over = nil
	}
}

func (l *batch) answer(results []machine.Result, err error) {
	for i, p := range l.waiting {
		p.end()
		o := outcome{err: err}
		if err == nil {
			o.result = results[i]
		}
		p.done <- o
	}
}

// close ends the goroutines. The batcher is closed to callers before.
func (b *batcher) close() {
	close(b.stop)
	b.done.Wait()
}
