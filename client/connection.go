package client

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"time"

	"connectrpc.com/connect"

	txmgrv1 "github.com/txmgr/txmgr/api/txmgr/v1"
	"github.com/txmgr/txmgr/txn"
)

// How a pipe gets a stream, and leaves it for another one.

// run keeps a connection for as long as there are calls to be sent.
func (p *pipe) run() {
	for failures, hops := 0, 0; p.await(nil, nil); {
		e, n := p.c.at()
		started := time.Now()
		end := p.connection(e, hops < maxHops)
		if p.c.ctx.Err() != nil {
			end.err = errClosed
		}
		p.fail(e.base, end.err, end.opened)
		if hops++; end.carried || !end.moved {
			hops = 0
		}
		switch {
		case end.moved && hops <= 1, !end.opened && errors.Is(end.err, txn.ErrDenied):
			continue // nothing that time mends
		case !end.moved:
			p.c.leave(n)
		}
		// Callers have their own patience; this one keeps a server that refuses,
		// or drops, connections from being dialled by each of them.
		if end.opened && time.Since(started) > maxBackoff {
			failures = 0
			continue
		}
		p.c.sleep(p.c.ctx, backoff(failures, end.err))
		failures++
	}
}

// await waits until there is something to send. It is false when there will be
// nothing any more: closed, broken has ended, or leave says that it should be sent
// elsewhere.
func (p *pipe) await(broken <-chan struct{}, leave func() bool) bool {
	for {
		p.mu.Lock()
		some, closed := len(p.queue) > 0, p.closed
		p.mu.Unlock()
		switch {
		case closed, leave != nil && leave():
			return false
		case some:
			return true
		}
		select {
		case <-p.wake:
		case <-broken:
			return false
		}
	}
}

// ending is how a connection ended.
type ending struct {
	opened  bool // otherwise it was never there, or refused: nothing has been carried out
	carried bool // a reply came
	moved   bool // it was left, to go on elsewhere
	err     error
}

// connection serves one stream until it breaks, or until another server should be
// asked instead; follows says that servers are believed who leads.
func (p *pipe) connection(e *endpoint, follows bool) (end ending) {
	shown := p.c.secret.get()
	defer func() {
		if errors.Is(end.err, txn.ErrDenied) && p.c.secret.get() != shown {
			end.err = fmt.Errorf("%w: the token was changed meanwhile", txn.ErrUnavailable)
		}
	}()
	ctx, cancel := context.WithCancel(p.c.ctx)
	defer cancel()
	impatience := time.AfterFunc(dialTimeout, cancel)
	defer impatience.Stop()
	stream, err := e.streams.Pipe(ctx)
	if err != nil {
		return ending{err: refusedOr(e.base, err)}
	}
	if !strings.HasPrefix(stream.ResponseHeader().Get("Content-Type"), "application/connect+") {
		_, err := stream.Receive() // does not block: there is an error
		return ending{err: refusedOr(e.base, err)}
	}
	if !impatience.Stop() {
		return ending{err: fmt.Errorf("no answer within %v", dialTimeout)}
	}
	end.opened = true
	p.c.reached.CompareAndSwap(false, true)
	// net/http does not look at the context while it waits for more of the body.
	defer context.AfterFunc(ctx, func() { _, _ = stream.CloseRequest(), stream.CloseResponse() })()

	p.mu.Lock()
	p.moving = false
	p.mu.Unlock()
	received := make(chan error, 1)
	go func() {
		defer cancel()
		var err error
		end.carried, err = p.receive(stream)
		received <- err
	}()
	leave := func() bool {
		now, _ := p.c.at()
		p.mu.Lock()
		defer p.mu.Unlock()
		return p.moving || follows && now != e
	}
	switch p.sendBatches(ctx, stream, leave) {
	case sendingOver:
		cancel()
	case sendingElsewhere:
		// The server answers what it has, and ends the stream.
		end.moved = true
		_ = stream.CloseRequest()
		defer time.AfterFunc(lastWord, cancel).Stop()
	case sendingBroken:
		// The stream is over, and what comes last says why: a refusal must not
		// look like a loss.
		defer time.AfterFunc(lastWord, cancel).Stop()
	}
	end.err = <-received
	if refusal := refused(e.base, end.err); refusal != nil {
		end.opened, end.err = false, refusal
	}
	return end
}

// refused is the server's reason for not serving a stream, or serving it no more;
// nil for every other end. What has no reply then has not been read: "denied" comes
// after all replies, and "unavailable" before the first command. It is the same for
// every call and names none.
func refused(base string, err error) error {
	err = lost(base, false, err)
	e := (*txn.Error)(nil)
	switch {
	case isLost(err): // of a proxy, or of nobody
	case errors.Is(err, txn.ErrDenied):
		if errors.As(err, &e) {
			return fmt.Errorf("%w: %s", e.Err, e.Detail)
		}
		return err
	case txn.CodeOf(err) == txn.CodeUnavailable && errors.As(err, &e):
		return err
	}
	return nil
}

// refusedOr is the reason for which a stream was refused, or else err itself.
func refusedOr(base string, err error) error {
	if r := refused(base, err); r != nil {
		return r
	}
	return err
}

type stream = *connect.BidiStreamForClientSimple[txmgrv1.Batch, txmgrv1.ReplyBatch]

// sending is why a connection sends no more.
type sending uint8

const (
	sendingOver      sending = iota // the pipe or its context has ended
	sendingElsewhere                // another server should be asked
	sendingBroken                   // the stream takes no more
)

// sendBatches sends what is in the queue for as long as it can.
func (p *pipe) sendBatches(ctx context.Context, s stream, leave func() bool) sending {
	var batch txmgrv1.Batch
	for p.await(ctx.Done(), leave) && ctx.Err() == nil {
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
			return sendingBroken
		}
	}
	if p.c.ctx.Err() == nil && ctx.Err() == nil && leave() {
		return sendingElsewhere
	}
	return sendingOver
}

// receive hands replies out until the stream ends. some says that there were any.
func (p *pipe) receive(s stream) (some bool, err error) {
	for {
		batch, err := s.Receive()
		if err != nil {
			return some, err
		}
		p.mu.Lock()
		for _, r := range batch.GetReplies() {
			if f := r.GetFailure(); f != nil {
				p.doubtLocked(f)
			}
			if k := p.pending[r.GetSeq()]; k != nil {
				delete(p.pending, r.GetSeq())
				p.finishLocked(k, r, nil)
			}
		}
		p.mu.Unlock()
		some = some || len(batch.GetReplies()) > 0
	}
}

// doubtLocked looks at a reply that may mean that the stream's server does not lead
// any more, or admits its caller no more: a new stream is passed on to who does
// lead, and shows the token that is now in the file. A call that was shed, which
// says when to come back, means neither.
func (p *pipe) doubtLocked(f *txmgrv1.Failure) {
	switch txn.Code(f.GetCode()) {
	case txn.CodeUnavailable, txn.CodeInDoubt, txn.CodeDenied:
	default:
		return
	}
	if now := time.Now(); f.GetRetryAfter() == "" && now.Sub(p.moved) >= moveEvery {
		p.moving, p.moved = true, now
		p.signal()
	}
}
