package server

import (
	"context"
	"errors"
	"io"
	"runtime"
	"sync"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/proto"

	txmgrv1 "github.com/txmgr/txmgr/api/txmgr/v1"
	"github.com/txmgr/txmgr/txn"
)

// pipe is one stream of command batches. Three kinds of goroutines share it: the
// stream's own reads batches, one for each command in flight carries it out, and
// one writes whatever replies are ready. A commit that waits for votes has none. No
// linger: while a message is on its way, the replies of the next one gather.
type pipe struct {
	s      *Server
	bearer *bearer
	ending context.Context // of the exchange
	stream *connect.BidiStream[txmgrv1.Batch, txmgrv1.ReplyBatch]
	epochs epochs
	jobs   chan job // unbuffered; closed when there are no more

	mu       sync.Mutex
	changed  sync.Cond        // of everything below
	inflight int              // commands read whose replies are not sent
	replies  []*txmgrv1.Reply // ready, not sent
	last     bool             // no command will be read any more
}

func (t *transactions) Pipe(ctx context.Context, stream *connect.BidiStream[txmgrv1.Batch, txmgrv1.ReplyBatch]) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	x := exchangeOf(ctx)
	p := &pipe{
		s: t.s, bearer: &x.bearer, ending: x.ending, stream: stream,
		jobs: make(chan job), epochs: epochs{parent: ctx, length: t.s.cfg.CallTimeout},
	}
	p.changed.L = &p.mu

	// Reading ends when another node leads, and at the drain, so that what was read
	// is answered and the caller goes elsewhere with the rest.
	reading := &interruptible{rc: x.rc}
	defer reading.done()
	defer context.AfterFunc(p.ending, reading.interrupt)()

	// The headers tell the caller that it is connected.
	if err := stream.Send(nil); err != nil {
		return nil
	}
	written := make(chan error, 1)
	go func() {
		written <- p.write(func() {
			cancel()
			reading.interrupt()
		})
	}()
	err := p.read()
	close(p.jobs)
	p.mu.Lock()
	p.last = true
	p.changed.Broadcast()
	p.mu.Unlock()
	err = errors.Join(err, <-written)
	// "Unavailable" would say that nothing was done; an end without an error says
	// that all that was answered was.
	if cause := context.Cause(p.ending); err == nil && errors.Is(cause, txn.ErrDenied) {
		err = cause
	}
	return err
}

// read carries out batches until there are no more. It is nil when the caller is
// done, or gone, or when the stream has to end.
func (p *pipe) read() error {
	for {
		batch, err := p.stream.Receive()
		switch {
		case err == nil:
		case errors.Is(err, io.EOF), p.epochs.parent.Err() != nil, p.ending.Err() != nil:
			return nil
		default:
			return err
		}
		for commands := batch.GetCommands(); len(commands) > 0; {
			n := p.admit(len(commands))
			now := time.Now()
			ctx := p.epochs.at(now)
			for _, c := range commands[:n] {
				p.start(job{ctx, c, now})
			}
			commands = commands[n:]
		}
	}
}

// job is a command that somebody has to carry out.
type job struct {
	ctx     context.Context
	command *txmgrv1.Command
	started time.Time
}

// start gives a job to a goroutine that waits for one, or to a new one.
func (p *pipe) start(j job) {
	select {
	case p.jobs <- j:
	default:
		go p.work(j)
	}
}

// work carries out jobs until there are no more, or enough others wait for them.
// A goroutine for each would cost more than the rest of what is done here: the
// stack of a new one has to grow to what a command needs.
func (p *pipe) work(j job) {
	for more := true; more; {
		p.run(j)
		if p.s.waiting.Add(1) > maxWaiting {
			p.s.waiting.Add(-1)
			return
		}
		j, more = <-p.jobs
		p.s.waiting.Add(-1)
	}
}

// maxTurns is how often everybody else may run before a message leaves.
const maxTurns = 3

// maxWaiting is how many goroutines of all pipes may wait for a job. Each holds
// about 8 KiB.
const maxWaiting = 4096

// admit waits until one or more of n commands may be in flight and says how
// many. It does not give up: every command ends at its deadline, and a broken
// stream drops its replies.
func (p *pipe) admit(n int) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	for p.inflight >= p.s.cfg.MaxPipeCommands {
		p.changed.Wait()
	}
	n = min(n, p.s.cfg.MaxPipeCommands-p.inflight)
	p.inflight += n
	return n
}

// run carries one command out. One that is parked is not done yet.
func (p *pipe) run(j job) {
	t := &task{job: j, pipe: p, procedure: p.s.commandOf(j.command)}
	t.reply.Seq = j.command.GetSeq()
	if err := t.carryOut(); err != errParked {
		t.end(err)
	}
}

// write sends replies until the last command has its own. When one cannot be
// sent it calls stop, which ends the reading and the commands, and drops the
// rest: nobody must wait for room for ever. It is nil when the caller is gone.
func (p *pipe) write(stop func()) error {
	var sending []*txmgrv1.Reply
	var broken error
	for {
		p.mu.Lock()
		p.inflight -= len(sending)
		p.changed.Broadcast()
		for len(p.replies) == 0 && !(p.last && p.inflight == 0) {
			p.changed.Wait()
		}
		// Commands that are about to be done get done first, for as long as more
		// are: a fuller message for the price of a few turns, and none when nothing
		// else wants to run.
		for had, turns := 0, 0; turns < maxTurns && len(p.replies) > had; turns++ {
			had = len(p.replies)
			p.mu.Unlock()
			runtime.Gosched()
			p.mu.Lock()
		}
		// The slices take turns; clear lets what was sent be collected.
		clear(sending)
		sending, p.replies = p.replies, sending[:0]
		p.mu.Unlock()

		if len(sending) == 0 {
			if connect.CodeOf(broken) != connect.CodeInternal { // could not be encoded
				return nil
			}
			return broken
		}
		if broken != nil {
			continue
		}
		if broken = p.send(sending); broken != nil {
			stop()
		}
	}
}

// maxReplies is about the most bytes of one message of replies. A reply to Get
// may be large; one alone may exceed it.
const maxReplies = 1 << 20

func (p *pipe) send(replies []*txmgrv1.Reply) error {
	for len(replies) > 0 {
		n, size := 0, 0
		for n < len(replies) && (n == 0 || size < maxReplies) {
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
