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

// This file opens the streams of a pipeline and moves it from one stream to another.

// run keeps a stream open for as long as there are calls to send.
func (p *pipeline) run() {
	for failures, hops := 0, 0; p.awaitQueue(nil, nil); {
		e, n := p.c.currentEndpoint()
		started := time.Now()
		end := p.serveStream(e, hops < maxHops)
		if p.c.ctx.Err() != nil {
			end.err = errClosed
		}
		p.fail(e.base, end.err, end.opened)
		if hops++; end.gotReply || !end.migrated {
			hops = 0
		}
		switch {
		case end.migrated && hops <= 1, !end.opened && errors.Is(end.err, txn.ErrDenied):
			continue // a retry cannot help
		case !end.migrated:
			p.c.failOver(n)
		}
		// Calls have their own timeouts; the backoff limits how often a server that refuses
		// or drops connections is dialled for all of them.
		if end.opened && time.Since(started) > maxBackoff {
			failures = 0
			continue
		}
		p.c.sleep(p.c.ctx, backoff(failures, end.err))
		failures++
	}
}

// awaitQueue waits until there is something to send. It returns false if nothing will be sent
// here any more: the pipeline is closed, broken is closed, or shouldMigrate says that another
// server should be used.
func (p *pipeline) awaitQueue(broken <-chan struct{}, shouldMigrate func() bool) bool {
	for {
		p.mu.Lock()
		some, closed := len(p.queue) > p.delayed.queued, p.closed
		p.mu.Unlock()
		switch {
		case closed, shouldMigrate != nil && shouldMigrate():
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

// streamResult says how a stream ended.
type streamResult struct {
	opened   bool // false: not connected, or refused; nothing was executed
	gotReply bool // at least one reply was received
	migrated bool // it was ended in order to use another server
	err      error
}

// serveStream serves one stream until it breaks, or until another server should be used.
// followLeader says that the client believes what servers report about the leader.
func (p *pipeline) serveStream(e *endpoint, followLeader bool) (end streamResult) {
	shown := p.c.secret.get()
	defer func() {
		if errors.Is(end.err, txn.ErrDenied) && p.c.secret.get() != shown {
			end.err = fmt.Errorf("%w: the token was changed meanwhile", txn.ErrUnavailable)
		}
	}()
	ctx, cancel := context.WithCancel(p.c.ctx)
	defer cancel()
	dialTimer := time.AfterFunc(dialTimeout, cancel)
	defer dialTimer.Stop()
	stream, err := e.streams.Pipeline(ctx)
	if err != nil {
		return streamResult{err: streamRefusalOr(e.base, err)}
	}
	if !strings.HasPrefix(stream.ResponseHeader().Get("Content-Type"), "application/connect+") {
		_, err := stream.Receive() // does not block: the stream has failed
		return streamResult{err: streamRefusalOr(e.base, err)}
	}
	if !dialTimer.Stop() {
		return streamResult{err: fmt.Errorf("no answer within %v", dialTimeout)}
	}
	end.opened = true
	p.c.reached.CompareAndSwap(false, true)
	// While net/http waits for more of the body, it ignores the context.
	defer context.AfterFunc(ctx, func() { _, _ = stream.CloseRequest(), stream.CloseResponse() })()

	p.mu.Lock()
	p.migrating = false
	p.mu.Unlock()
	received := make(chan error, 1)
	go func() {
		defer cancel()
		var err error
		end.gotReply, err = p.receive(stream)
		received <- err
	}()
	shouldMigrate := func() bool {
		now, _ := p.c.currentEndpoint()
		p.mu.Lock()
		defer p.mu.Unlock()
		return p.migrating || followLeader && now != e
	}
	switch p.sendBatches(ctx, stream, shouldMigrate) {
	case sendDone:
		cancel()
	case sendMigrated:
		// The server answers the commands that it has, and ends the stream.
		end.migrated = true
		_ = stream.CloseRequest()
		defer time.AfterFunc(closeGrace, cancel).Stop()
	case sendFailed:
		// The stream has ended, and its trailers carry the reason: a refusal must not look
		// like a broken connection.
		defer time.AfterFunc(closeGrace, cancel).Stop()
	}
	end.err = <-received
	if refusal := streamRefusal(e.base, end.err); refusal != nil {
		end.opened, end.err = false, refusal
	}
	return end
}

// streamRefusal is the server's reason for refusing or ending a stream; nil for every other
// end. Commands without a reply have then not been read: "denied" comes after all replies,
// and "unavailable" before the first command. The reason is the same for every call and names
// none.
func streamRefusal(base string, err error) error {
	err = classify(base, false, err)
	e := (*txn.Error)(nil)
	switch {
	case isTransportError(err): // of a proxy, or of the connection
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

// streamRefusalOr returns the reason for which a stream was refused, or else err.
func streamRefusalOr(base string, err error) error {
	if r := streamRefusal(base, err); r != nil {
		return r
	}
	return err
}

type stream = *connect.BidiStreamForClientSimple[txmgrv1.Batch, txmgrv1.ReplyBatch]

// sendResult is why nothing more is sent on a stream.
type sendResult uint8

const (
	sendDone     sendResult = iota // the pipeline or its context has ended
	sendMigrated                   // another server should be used
	sendFailed                     // the stream has failed
)

// sendBatches sends the queue in batches until it has to stop.
func (p *pipeline) sendBatches(ctx context.Context, s stream, shouldMigrate func() bool) sendResult {
	var batch txmgrv1.Batch
	for p.awaitQueue(ctx.Done(), shouldMigrate) && ctx.Err() == nil {
		p.mu.Lock()
		// Yield to callers that are about to queue a command, as long as more do: this fills
		// the message at the price of a few yields, and costs nothing if no other goroutine
		// is runnable.
		for had, yields := 0, 0; yields < maxYields && len(p.queue) > had; yields++ {
			had = len(p.queue)
			p.mu.Unlock()
			runtime.Gosched()
			p.mu.Lock()
		}
		n := batchSize(p.queue)
		p.delayed.queued = 0 // they are part of this message, or of the next
		batch.Commands = batch.Commands[:0]
		for _, k := range p.queue[:n] {
			k.phase = sent
			p.pending[k.command.Seq] = k
			batch.Commands = append(batch.Commands, k.command)
		}
		rest := copy(p.queue, p.queue[n:])
		clear(p.queue[rest:])
		p.queue = p.queue[:rest]
		p.mu.Unlock()
		if err := s.Send(&batch); err != nil {
			return sendFailed
		}
	}
	if p.c.ctx.Err() == nil && ctx.Err() == nil && shouldMigrate() {
		return sendMigrated
	}
	return sendDone
}

// receive delivers replies until the stream ends. some reports whether there were any.
func (p *pipeline) receive(s stream) (some bool, err error) {
	for {
		batch, err := s.Receive()
		if err != nil {
			return some, err
		}
		p.mu.Lock()
		for _, r := range batch.GetReplies() {
			if f := r.GetFailure(); f != nil {
				p.onFailureLocked(f)
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

// onFailureLocked handles a reply that may mean that the stream's server is not the leader
// any more, or that the token is not valid any more: a new stream is forwarded to the leader,
// and carries the current token of the file. A call that was shed has a time after which to
// retry, and means neither.
func (p *pipeline) onFailureLocked(f *txmgrv1.Failure) {
	switch txn.Code(f.GetCode()) {
	case txn.CodeUnavailable, txn.CodeInDoubt, txn.CodeDenied:
	default:
		return
	}
	if now := time.Now(); f.GetRetryAfter() == "" && now.Sub(p.lastMigration) >= migrationInterval {
		p.migrating, p.lastMigration = true, now
		p.signal()
	}
}
