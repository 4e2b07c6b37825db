package pipeline

import (
	"context"
	"errors"
	"io"
	"net/http"
	"runtime"
	"sync"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/proto"

	txmgrv1 "github.com/txmgr/txmgr/api/txmgr/v1"
	"github.com/txmgr/txmgr/txn"
)

// Stream is a stream of command batches.
type Stream = connect.BidiStream[txmgrv1.Batch, txmgrv1.ReplyBatch]

// pipeline is one stream. Three kinds of goroutines share it: the stream's own reads batches,
// one for each command in flight executes it, and one writes the replies that are ready. A
// deferred command has none. There is no linger: while a message is being sent, the replies of
// the next one gather.
type pipeline struct {
	runner    *Runner
	executor  Executor
	lifetime  context.Context // of the stream
	stream    *Stream
	deadlines deadlinePool
	calls     chan queuedCall // unbuffered; closed when there are no more

	mu       sync.Mutex
	changed  sync.Cond        // signals changes of everything below
	inflight int              // commands read whose replies are not sent
	replies  []*txmgrv1.Reply // ready, not sent
	readDone bool             // no command will be read any more
}

// Serve executes the commands of a stream until its client has finished, or lifetime ends.
// rc controls the request that the stream belongs to.
func (r *Runner) Serve(ctx, lifetime context.Context, stream *Stream, rc *http.ResponseController, e Executor) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	p := &pipeline{
		runner: r, executor: e, lifetime: lifetime, stream: stream,
		calls: make(chan queuedCall), deadlines: deadlinePool{parent: ctx, timeout: r.cfg.CallTimeout},
	}
	p.changed.L = &p.mu

	// Reading ends when another node leads, and at the drain: the commands read so far are
	// answered, and the client sends the rest to another node.
	reading := NewReadAborter(rc)
	defer reading.Release()
	defer context.AfterFunc(p.lifetime, reading.Abort)()

	// The headers tell the client that it is connected.
	if err := stream.Send(nil); err != nil {
		return nil
	}
	written := make(chan error, 1)
	go func() {
		written <- p.write(func() {
			cancel()
			reading.Abort()
		})
	}()
	err := p.read()
	close(p.calls)
	p.mu.Lock()
	p.readDone = true
	p.changed.Broadcast()
	p.mu.Unlock()
	err = errors.Join(err, <-written)
	// "Unavailable" would state that nothing was done. An end without an error states that
	// everything that was answered was done.
	if cause := context.Cause(p.lifetime); err == nil && errors.Is(cause, txn.ErrDenied) {
		err = cause
	}
	return err
}

// read starts commands until there are no more. It returns nil if the client has finished, or
// is gone, or if the stream has to end.
func (p *pipeline) read() error {
	for {
		batch, err := p.stream.Receive()
		switch {
		case err == nil:
		case errors.Is(err, io.EOF), p.deadlines.parent.Err() != nil, p.lifetime.Err() != nil:
			return nil
		default:
			return err
		}
		for commands := batch.GetCommands(); len(commands) > 0; {
			n := p.acquire(len(commands))
			now := time.Now()
			ctx := p.deadlines.contextFor(now)
			for _, c := range commands[:n] {
				p.start(queuedCall{ctx, c, now})
			}
			commands = commands[n:]
		}
	}
}

// queuedCall is a command that waits for a worker.
type queuedCall struct {
	ctx     context.Context
	command *txmgrv1.Command
	started time.Time
}

// start gives a call to an idle worker, or to a new one.
func (p *pipeline) start(j queuedCall) {
	select {
	case p.calls <- j:
	default:
		go p.worker(j)
	}
}

// worker executes calls until there are no more, or enough other workers are idle. A
// goroutine per call would cost more than everything else that is done here: the stack of a
// new one has to grow to what a command needs.
func (p *pipeline) worker(j queuedCall) {
	for more := true; more; {
		p.runCall(j)
		if p.runner.idleWorkers.Add(1) > maxIdleWorkers {
			p.runner.idleWorkers.Add(-1)
			return
		}
		j, more = <-p.calls
		p.runner.idleWorkers.Add(-1)
	}
}

// maxYields is how often the writer yields to other goroutines before it sends a message.
const maxYields = 3

// maxIdleWorkers is how many workers of all pipelines together may be idle. Each holds about
// 8 KiB.
const maxIdleWorkers = 4096

// acquire waits until one or more of n commands may be in flight, and returns how many. It
// has no timeout of its own: every command ends at its deadline, and a broken stream drops
// its replies.
func (p *pipeline) acquire(n int) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	for p.inflight >= p.runner.cfg.MaxPipelineCommands {
		p.changed.Wait()
	}
	n = min(n, p.runner.cfg.MaxPipelineCommands-p.inflight)
	p.inflight += n
	return n
}

// runCall executes one command. A deferred one is finished later.
func (p *pipeline) runCall(j queuedCall) {
	c := &Call{Context: j.ctx, Command: j.command, Started: j.started, pipeline: p}
	c.Reply.Seq = j.command.GetSeq()
	err := p.runner.count()
	if err == nil {
		err = p.executor.Execute(c)
	}
	if err != ErrDeferred {
		c.Finish(err)
	}
}

// write sends replies until every command has one. When a reply cannot be sent, it calls
// stop, which ends the reading and the commands, and drops the rest, so that acquire never
// waits forever. It returns nil if the client is gone.
func (p *pipeline) write(stop func()) error {
	var sending []*txmgrv1.Reply
	var sendErr error
	for {
		p.mu.Lock()
		p.inflight -= len(sending)
		p.changed.Broadcast()
		for len(p.replies) == 0 && !(p.readDone && p.inflight == 0) {
			p.changed.Wait()
		}
		// Yield to commands that are about to finish, as long as more do: this fills the
		// message at the price of a few yields, and costs nothing if no other goroutine is
		// runnable.
		for had, yields := 0, 0; yields < maxYields && len(p.replies) > had; yields++ {
			had = len(p.replies)
			p.mu.Unlock()
			runtime.Gosched()
			p.mu.Lock()
		}
		// The slices alternate; clear lets the sent replies be collected.
		clear(sending)
		sending, p.replies = p.replies, sending[:0]
		p.mu.Unlock()

		if len(sending) == 0 {
			if connect.CodeOf(sendErr) != connect.CodeInternal { // else a reply was not encodable
				return nil
			}
			return sendErr
		}
		if sendErr != nil {
			continue
		}
		if sendErr = p.send(sending); sendErr != nil {
			stop()
		}
	}
}

// maxReplyBytes is about the most bytes of one message of replies. A single reply to Get may
// exceed it.
const maxReplyBytes = 1 << 20

func (p *pipeline) send(replies []*txmgrv1.Reply) error {
	for len(replies) > 0 {
		n, size := 0, 0
		for n < len(replies) && (n == 0 || size < maxReplyBytes) {
			if replies[n].GetGet() != nil || replies[n].GetFailure() != nil {
				size += proto.Size(replies[n])
			}
			size += 64
			n++
		}
		if err := p.stream.Send(&txmgrv1.ReplyBatch{Replies: replies[:n]}); err != nil {
			return err
		}
		replies = replies[n:]
	}
	return nil
}
