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
	// maxBatch and maxBatchBytes end a message: the limit of a server's body is
	// 1 MiB, and weights are estimates.
	maxBatch      = 2048
	maxBatchBytes = 512 << 10
	// maxYields is how often everybody else may run before a message leaves.
	maxYields = 3
	// maxCommandBytes is the most that one command may weigh.
	maxCommandBytes = 1000 << 10
	// commandOverhead is what a command weighs that carries nothing.
	commandOverhead = 64
	// closeGrace is how long the reason for the end of a stream may take to arrive,
	// and the replies on a stream that is about to be left.
	closeGrace = time.Second
	// migrationInterval is the least time between two moves because of what was replied.
	migrationInterval = 500 * time.Millisecond
	// maxHops is how many streams in a row may be left for another server before
	// they have carried anything: what servers say of each other may be out of date.
	maxHops = 2
)

// pipeline is the client's side of the stream of command batches. One goroutine
// connects and sends, one receives; callers wait for their own reply. While a
// message is on its way, the commands of the next one gather in the queue.
type pipeline struct {
	c       *Client
	wake    chan struct{} // the queue is not empty, or the pipe is closed
	running sync.WaitGroup

	mu            sync.Mutex // guards everything below, and call.place
	queue         []*call
	pending       map[uint64]*call // sent, by seq
	seq           uint64
	started       bool
	closed        bool
	migrating     bool      // a reply says that this stream leads to nobody who decides
	lastMigration time.Time // when one said so last
}

// call is one command on its way. Calls are used again.
type call struct {
	command *txmgrv1.Command
	weight  int
	phase   callPhase
	done    chan struct{} // one token when reply or err is set
	reply   *txmgrv1.Reply
	err     error
	timer   *time.Timer // for contexts without a deadline
}

// callPhase is where a call is.
type callPhase uint8

const (
	queued   callPhase = iota
	sent               // in pending
	finished           // its token is in done, or will be at once
)

var callPool = sync.Pool{New: func() any {
	t := time.NewTimer(time.Hour)
	t.Stop()
	return &call{done: make(chan struct{}, 1), timer: t}
}}

func newPipeline(c *Client) *pipeline {
	return &pipeline{c: c, wake: make(chan struct{}, 1), pending: make(map[uint64]*call)}
}

// send makes one try. patience counts when ctx has no deadline. An error is a
// [transportError], or what the server answered.
func (p *pipeline) send(ctx context.Context, timeout time.Duration, cmd *txmgrv1.Command, weight int) (*txmgrv1.Reply, error) {
	if err := ctx.Err(); err != nil {
		return nil, &transportError{base: p.c.cfg.Address, err: err}
	}
	k := callPool.Get().(*call)
	k.command, k.weight = cmd, weight
	var expired <-chan time.Time
	if _, has := ctx.Deadline(); !has {
		k.timer.Reset(timeout)
		defer k.timer.Stop()
		expired = k.timer.C
	}
	p.enqueue(k)
	var why error
	select {
	case <-k.done:
		return k.result()
	case <-ctx.Done():
		why = ctx.Err()
	case <-expired:
		why = context.DeadlineExceeded
	}
	was := p.abandon(k)
	if was == finished {
		<-k.done
		return k.result()
	}
	// Others still hold the call: it is not used again.
	return nil, &transportError{base: p.c.cfg.Address, sent: was == sent, err: why}
}

// result takes reply and error out and lets the call be used again.
func (k *call) result() (*txmgrv1.Reply, error) {
	reply, err := k.reply, k.err
	k.timer.Stop()
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
	if !p.started {
		p.started = true
		p.running.Go(p.run)
	}
	p.seq++
	k.command.Seq, k.phase = p.seq, queued
	p.queue = append(p.queue, k)
	first := len(p.queue) == 1
	p.mu.Unlock()
	if first {
		p.signal()
	}
}

func (p *pipeline) signal() {
	select {
	case p.wake <- struct{}{}:
	default:
	}
}

// abandon takes a call out whose caller has given up, and says where it was.
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
	k.done <- struct{}{}
}

// fail ends the calls whose replies will not come; arrived says that they may
// have been carried out. If not, the queued calls end too: whoever waits in vain
// for a connection shall know why.
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

// failLocked ends a call without a reply. That nobody is admitted is an answer, and
// final.
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
	p.queue = p.queue[:0]
}

// close ends the connection and every call, and waits until nothing runs.
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

// batchSize says how many calls go into the next message.
func batchSize(queue []*call) int {
	n, size := 0, 0
	for n < len(queue) && n < maxBatch && (n == 0 || size+queue[n].weight <= maxBatchBytes) {
		size += queue[n].weight
		n++
	}
	return n
}

// tooLarge is the error of a command that no server would read.
func tooLarge(weight int) error {
	return fmt.Errorf("%w: the call has about %d bytes; at most %d", txn.ErrInvalid, weight, maxCommandBytes)
}

var errNoReply = errors.New("the reply is of another kind than the call, perhaps from another version of txmgr")
