package client

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"time"

	"connectrpc.com/connect"

	txmgrv1 "github.com/txmgr/txmgr/api/txmgr/v1"
	"github.com/txmgr/txmgr/api/wire"
	"github.com/txmgr/txmgr/txn"
)

const (
	// maxBatch and maxBatchBytes end a message: the limit of a server's body is
	// 1 MiB, and weights are estimates.
	maxBatch      = 2048
	maxBatchBytes = 512 << 10
	// maxTurns is how often everybody else may run before a message leaves.
	maxTurns = 3
	// maxCommandBytes is the most that one command may weigh.
	maxCommandBytes = 1000 << 10
	// commandOverhead is what a command weighs that carries nothing.
	commandOverhead = 64
	// lastWord is how long the reason for the end of a stream may take to arrive.
	lastWord = time.Second
)

// pipe is the client's side of the stream of command batches. One goroutine
// connects and sends, one receives; callers wait for their own reply. While a
// message is on its way, the commands of the next one gather in the queue.
type pipe struct {
	c       *Client
	wake    chan struct{} // the queue is not empty, or the pipe is closed
	running sync.WaitGroup

	mu      sync.Mutex // guards everything below, and call.place
	queue   []*call
	pending map[uint64]*call // sent, by seq
	seq     uint64
	started bool
	closed  bool
}

// call is one command on its way. Calls are used again.
type call struct {
	command *txmgrv1.Command
	weight  int
	place   place
	done    chan struct{} // one token when reply or err is set
	reply   *txmgrv1.Reply
	err     error
	timer   *time.Timer // for contexts without a deadline
}

// place is where a call is.
type place uint8

const (
	queued   place = iota
	sent           // in pending
	finished       // its token is in done, or will be at once
)

var calls = sync.Pool{New: func() any {
	t := time.NewTimer(time.Hour)
	t.Stop()
	return &call{done: make(chan struct{}, 1), timer: t}
}}

func newPipe(c *Client) *pipe {
	return &pipe{c: c, wake: make(chan struct{}, 1), pending: make(map[uint64]*call)}
}

// send makes one try. patience counts when ctx has no deadline. An error is a
// [lostError], or what the server answered.
func (p *pipe) send(ctx context.Context, patience time.Duration, cmd *txmgrv1.Command, weight int) (*txmgrv1.Reply, error) {
	if err := ctx.Err(); err != nil {
		return nil, &lostError{base: p.c.cfg.Address, err: err}
	}
	k := calls.Get().(*call)
	k.command, k.weight = cmd, weight
	var over <-chan time.Time
	if _, has := ctx.Deadline(); !has {
		k.timer.Reset(patience)
		defer k.timer.Stop()
		over = k.timer.C
	}
	p.enqueue(k)
	var why error
	select {
	case <-k.done:
		return k.result()
	case <-ctx.Done():
		why = ctx.Err()
	case <-over:
		why = context.DeadlineExceeded
	}
	was := p.abandon(k)
	if was == finished {
		<-k.done
		return k.result()
	}
	// Others still hold the call: it is not used again.
	return nil, &lostError{base: p.c.cfg.Address, sent: was == sent, err: why}
}

// result takes reply and error out and lets the call be used again.
func (k *call) result() (*txmgrv1.Reply, error) {
	reply, err := k.reply, k.err
	k.timer.Stop()
	k.command, k.reply, k.err = nil, nil, nil
	calls.Put(k)
	if err != nil {
		return nil, err
	}
	if f := reply.GetFailure(); f != nil {
		return nil, wire.ToError(f)
	}
	return reply, nil
}

func (p *pipe) enqueue(k *call) {
	p.mu.Lock()
	if p.closed {
		p.finishLocked(k, nil, &lostError{base: p.c.cfg.Address, err: errClosed})
		p.mu.Unlock()
		return
	}
	if !p.started {
		p.started = true
		p.running.Go(p.run)
	}
	p.seq++
	k.command.Seq, k.place = p.seq, queued
	p.queue = append(p.queue, k)
	first := len(p.queue) == 1
	p.mu.Unlock()
	if first {
		p.signal()
	}
}

func (p *pipe) signal() {
	select {
	case p.wake <- struct{}{}:
	default:
	}
}

// abandon takes a call out whose caller has given up, and says where it was.
func (p *pipe) abandon(k *call) place {
	p.mu.Lock()
	defer p.mu.Unlock()
	was := k.place
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

func (p *pipe) finishLocked(k *call, reply *txmgrv1.Reply, err error) {
	k.place, k.reply, k.err = finished, reply, err
	k.done <- struct{}{}
}

// fail ends the calls whose replies will not come; arrived says that they may
// have been carried out. If not, the queued calls end too: whoever waits in vain
// for a connection shall know why.
func (p *pipe) fail(base string, err error, arrived bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for seq, k := range p.pending {
		delete(p.pending, seq)
		p.finishLocked(k, nil, &lostError{base: base, sent: arrived, err: err})
	}
	if !arrived {
		p.failQueueLocked(base, err)
	}
}

func (p *pipe) failQueueLocked(base string, err error) {
	for _, k := range p.queue {
		p.finishLocked(k, nil, &lostError{base: base, err: err})
	}
	clear(p.queue)
	p.queue = p.queue[:0]
}

// close ends the connection and every call, and waits until nothing runs.
func (p *pipe) close() {
	p.mu.Lock()
	p.closed = true
	p.mu.Unlock()
	p.signal()
	p.running.Wait()
	p.mu.Lock()
	defer p.mu.Unlock()
	p.failQueueLocked(p.c.cfg.Address, errClosed)
}

// run keeps a connection for as long as there are calls to be sent.
func (p *pipe) run() {
	for failures := 0; p.await(nil); {
		e, n := p.c.at()
		started := time.Now()
		opened, err := p.connection(e)
		if p.c.ctx.Err() != nil {
			err = errClosed
		}
		p.fail(e.base, err, opened)
		p.c.leave(n)
		// Callers have their own patience; this one keeps a server that refuses,
		// or drops, connections from being dialled by each of them.
		if opened && time.Since(started) > maxBackoff {
			failures = 0
			continue
		}
		p.c.sleep(p.c.ctx, backoff(failures, err))
		failures++
	}
}

// await waits until there is something to send. It is false when there will be
// nothing any more: closed, or broken has ended.
func (p *pipe) await(broken <-chan struct{}) bool {
	for {
		p.mu.Lock()
		some, closed := len(p.queue) > 0, p.closed
		p.mu.Unlock()
		if closed || some {
			return !closed
		}
		select {
		case <-p.wake:
		case <-broken:
			return false
		}
	}
}

// connection serves one stream until it breaks. opened is false when the stream
// was never there, or was refused: then nothing has been carried out.
func (p *pipe) connection(e *endpoint) (opened bool, err error) {
	ctx, cancel := context.WithCancel(p.c.ctx)
	defer cancel()
	impatience := time.AfterFunc(dialTimeout, cancel)
	defer impatience.Stop()
	stream, err := e.streams.Pipe(ctx)
	if err != nil {
		return false, err
	}
	if !strings.HasPrefix(stream.ResponseHeader().Get("Content-Type"), "application/connect+") {
		_, err := stream.Receive() // does not block: there is an error
		return false, err
	}
	if !impatience.Stop() {
		return false, fmt.Errorf("no answer within %v", dialTimeout)
	}
	p.c.reached.CompareAndSwap(false, true)
	// net/http does not look at the context while it waits for more of the body.
	defer context.AfterFunc(ctx, func() { _, _ = stream.CloseRequest(), stream.CloseResponse() })()

	received := make(chan error, 1)
	go func() {
		defer cancel()
		received <- p.receive(stream)
	}()
	if p.sendBatches(ctx, stream) {
		cancel()
	} else {
		// The stream is over, and what comes last says why: a refusal must not
		// look like a loss.
		defer time.AfterFunc(lastWord, cancel).Stop()
	}
	err = <-received
	if refusal := refused(err); refusal != nil {
		return false, refusal
	}
	return true, err
}

// refused is the server's reason for not serving a stream at all, before it read
// any of it; nil for every other end. It is the only failure of a whole Pipe
// that a server calls "unavailable".
func refused(err error) error {
	if err = wire.FromConnect(err); txn.CodeOf(err) == txn.CodeUnavailable {
		if e := (*txn.Error)(nil); errors.As(err, &e) { // of a txmgr server, not of a proxy
			return err
		}
	}
	return nil
}

type stream = *connect.BidiStreamForClientSimple[txmgrv1.Batch, txmgrv1.ReplyBatch]

// sendBatches sends what is in the queue until ctx or the pipe ends. It is false
// when the stream took no more before that.
func (p *pipe) sendBatches(ctx context.Context, s stream) bool {
	var batch txmgrv1.Batch
	for p.await(ctx.Done()) && ctx.Err() == nil {
		p.mu.Lock()
		// Callers that are about to queue do so first, for as long as more come: a
		// fuller message for the price of a few turns, and none when nobody else
		// wants to run.
		for had, turns := 0, 0; turns < maxTurns && len(p.queue) > had; turns++ {
			had = len(p.queue)
			p.mu.Unlock()
			runtime.Gosched()
			p.mu.Lock()
		}
		n := take(p.queue)
		batch.Commands = batch.Commands[:0]
		for _, k := range p.queue[:n] {
			k.place = sent
			p.pending[k.command.Seq] = k
			batch.Commands = append(batch.Commands, k.command)
		}
		rest := copy(p.queue, p.queue[n:])
		clear(p.queue[rest:])
		p.queue = p.queue[:rest]
		p.mu.Unlock()
		if err := s.Send(&batch); err != nil {
			return false
		}
	}
	return true
}

// take says how many calls go into the next message.
func take(queue []*call) int {
	n, size := 0, 0
	for n < len(queue) && n < maxBatch && (n == 0 || size+queue[n].weight <= maxBatchBytes) {
		size += queue[n].weight
		n++
	}
	return n
}

// receive hands replies out until the stream ends.
func (p *pipe) receive(s stream) error {
	for {
		batch, err := s.Receive()
		if err != nil {
			return err
		}
		p.mu.Lock()
		for _, r := range batch.GetReplies() {
			if k := p.pending[r.GetSeq()]; k != nil {
				delete(p.pending, r.GetSeq())
				p.finishLocked(k, r, nil)
			}
		}
		p.mu.Unlock()
	}
}

// tooLarge is the error of a command that no server would read.
func tooLarge(weight int) error {
	return fmt.Errorf("%w: the call has about %d bytes; at most %d", txn.ErrInvalid, weight, maxCommandBytes)
}

var errNoReply = errors.New("the reply is of another kind than the call, perhaps from another version of txmgr")
