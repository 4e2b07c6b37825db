package pipeline

import (
	"context"
	"errors"
	"io"
	"net/http"
	"sync"
	"time"

	"connectrpc.com/connect"

	txmgrv1 "github.com/txmgr/txmgr/api/txmgr/v1"
	"github.com/txmgr/txmgr/txn"
)

// Stream is a stream of command batches.
type Stream = connect.BidiStream[txmgrv1.Batch, txmgrv1.ReplyBatch]

// pipeline is one stream. Three kinds of goroutines share it: the stream's own reads batches,
// one for each command in flight that may block executes it, and one writes the replies that are
// ready. There is no linger: while a message is being sent, the replies of
// the next one gather.
type pipeline struct {
	runner    *Runner
	executor  Executor
	lifetime  context.Context // of the stream
	stream    *Stream
	deadlines deadlinePool
	calls     chan *Call // unbuffered; closed when there are no more

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
		calls: make(chan *Call), deadlines: deadlinePool{parent: ctx, timeout: r.cfg.CallTimeout},
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
				p.start(&Call{Context: ctx, Command: c, Started: now, pipeline: p})
			}
			commands = commands[n:]
		}
	}
}

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
