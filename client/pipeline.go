package client

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	txmgrv1 "github.com/txmgr/txmgr/api/txmgr/v1"
	"github.com/txmgr/txmgr/api/wire"
	"github.com/txmgr/txmgr/txn"
)

const (
	// maxBatch and maxBatchBytes limit a message: a server's default limit for a body is 1
	// MiB, and weights are estimates.
	maxBatch      = 2048
	maxBatchBytes = 512 << 10
	// maxYields is how often the sender yields to other goroutines before it sends a message.
	maxYields = 3
	// maxCommandBytes is the most that one command may weigh.
	maxCommandBytes = 1000 << 10
	// commandOverhead is the weight of a command without a payload.
	commandOverhead = 64
	// closeGrace is how long to wait for the reason for the end of a stream, and for the
	// replies on a stream that is about to be closed.
	closeGrace = time.Second
	// migrationInterval is the least time between two migrations caused by replies.
	migrationInterval = 500 * time.Millisecond
	// maxHops is how many streams in a row may be left for another server without having
	// carried a command: what servers report about the leader may be out of date.
	maxHops = 2
)

// pipeline is the client's side of the stream of command batches. One goroutine
// connects and sends, one receives; callers wait for their own reply. While a
// message is being sent, the commands of the next one gather in the queue.
type pipeline struct {
	c       *Client
	wake    chan struct{} // the queue is not empty, or the pipeline is closed
	running sync.WaitGroup

	mu            sync.Mutex // guards everything below, and call.place
	queue         []*call
	delayed       delayedCalls
	pending       map[uint64]*call // sent, by seq
	seq           uint64
	started       bool
	sweeping      bool // a timer is running that will look for calls whose time is over
	closed        bool
	migrating     bool      // a reply says that this stream does not reach a leader
	lastMigration time.Time // when a reply last said so
}

// call is one command until its caller has the result. Calls are reused.
type call struct {
	command *txmgrv1.Command
	weight  int
	delayed bool      // its caller does not wait
	expires time.Time // zero: the context of its caller has a deadline, or its caller does not wait
	phase   callPhase
	done    chan struct{} // one token when reply or err is set
	reply   *txmgrv1.Reply
	err     error
}

// callPhase is the phase of a call.
type callPhase uint8

const (
	queued   callPhase = iota
	sent               // in pending
	finished           // its token is in done, or is about to be
)

var callPool = sync.Pool{New: func() any { return &call{done: make(chan struct{}, 1)} }}

func newPipeline(c *Client) *pipeline {
	return &pipeline{c: c, wake: make(chan struct{}, 1), pending: make(map[uint64]*call)}
}

// send makes one try. It ends at expires, or up to 10 ms later, if ctx has no deadline. An error is
// a [transportError], or the server's answer.
func (p *pipeline) send(ctx context.Context, expires time.Time, cmd *txmgrv1.Command, weight int) (*txmgrv1.Reply, error) {
	if err := ctx.Err(); err != nil {
		return nil, &transportError{base: p.c.cfg.Address, err: err}
	}
	k := callPool.Get().(*call)
	k.command, k.weight, k.expires = cmd, weight, expires
	if _, has := ctx.Deadline(); has {
		k.expires = time.Time{}
	}
	p.enqueue(k)
	select {
	case <-k.done:
		return k.result()
	case <-ctx.Done():
	}
	was := p.abandon(k)
	if was == finished {
		<-k.done
		return k.result()
	}
	// Other goroutines still hold the call: it is not reused.
	return nil, &transportError{base: p.c.cfg.Address, sent: was == sent, err: ctx.Err()}
}

// result returns the reply and the error, and releases the call for reuse.
func (k *call) result() (*txmgrv1.Reply, error) {
	reply, err := k.reply, k.err
	k.command, k.reply, k.err = nil, nil, nil
	callPool.Put(k)
	if err != nil {
		return nil, err
	}
	if f := reply.GetFailure(); f != nil {
		return nil, wire.ToError(f)
	}
	return reply, nil
}

func (p *pipeline) enqueue(k *call) {
	p.mu.Lock()
	if p.closed {
		p.finishLocked(k, nil, &transportError{base: p.c.cfg.Address, err: errClosed})
		p.mu.Unlock()
		return
	}
	p.putLocked(k)
	first := len(p.queue)-p.delayed.queued == 1
	p.mu.Unlock()
	if first {
		p.signal()
	}
}

func (p *pipeline) putLocked(k *call) {
	if !p.started {
		p.started = true
		p.running.Go(p.run)
	}
	p.seq++
	k.command.Seq, k.phase = p.seq, queued
	p.queue = append(p.queue, k)
	if !k.expires.IsZero() {
		p.sweepLocked()
	}
}

func (p *pipeline) signal() {
	select {
	case p.wake <- struct{}{}:
	default:
	}
}

// abandon removes a call whose caller has given up, and returns the phase it was in.
func (p *pipeline) abandon(k *call) callPhase {
	p.mu.Lock()
	defer p.mu.Unlock()
	was := k.phase
	if was == sent {
		delete(p.pending, k.command.Seq)
	}
	if was == queued {
		for i, q := range p.queue {
			if q == k {
				p.queue = append(p.queue[:i], p.queue[i+1:]...)
				break
			}
		}
	}
	return was
}

func (p *pipeline) finishLocked(k *call, reply *txmgrv1.Reply, err error) {
	k.phase, k.reply, k.err = finished, reply, err
	p.delayed.finishedLocked(k)
	k.done <- struct{}{}
}

// fail ends the calls that will get no reply; arrived says that they may have been executed.
// If they have not, the queued calls end too, so that their callers learn why there is no
// connection.
func (p *pipeline) fail(base string, err error, arrived bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for seq, k := range p.pending {
		delete(p.pending, seq)
		p.failLocked(k, base, err, arrived)
	}
	if !arrived {
		p.failQueueLocked(base, err)
	}
}

// failLocked ends a call without a reply. A rejected caller gets the rejection as the final
// answer.
func (p *pipeline) failLocked(k *call, base string, err error, arrived bool) {
	if arrived || !errors.Is(err, txn.ErrDenied) {
		err = &transportError{base: base, sent: arrived, err: err}
	}
	p.finishLocked(k, nil, err)
}

func (p *pipeline) failQueueLocked(base string, err error) {
	for _, k := range p.queue {
		p.failLocked(k, base, err, false)
	}
	clear(p.queue)
	p.queue, p.delayed.queued = p.queue[:0], 0
}

// close ends the stream and every call, and waits until no goroutine runs.
func (p *pipeline) close() {
	p.mu.Lock()
	p.closed = true
	p.mu.Unlock()
	p.signal()
	p.running.Wait()
	p.mu.Lock()
	defer p.mu.Unlock()
	p.failQueueLocked(p.c.cfg.Address, errClosed)
}

// batchSize is the number of calls of the next message.
func batchSize(queue []*call) int {
	n, size := 0, 0
	for n < len(queue) && n < maxBatch && (n == 0 || size+queue[n].weight <= maxBatchBytes) {
		size += queue[n].weight
		n++
	}
	return n
}

// tooLarge is the error of a command that exceeds every server's limit.
func tooLarge(weight int) error {
	return fmt.Errorf("%w: the call has about %d bytes; at most %d", txn.ErrInvalid, weight, maxCommandBytes)
}

var errNoReply = errors.New("the reply is of another kind than the call, perhaps from another version of txmgr")
