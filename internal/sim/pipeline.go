package sim

import (
	"sync"
	"time"

	"github.com/hashicorp/raft"
)

// pipeline is a connection on which requests follow one another. It breaks when a request, or an
// answer, is lost.
type pipeline struct {
	t      *transport
	to     raft.ServerAddress
	queue  chan *appendFuture
	done   chan raft.AppendFuture
	closed chan struct{}
	shut   func()
}

// AppendEntriesPipeline implements raft.Transport.
func (t *transport) AppendEntriesPipeline(_ raft.ServerID, to raft.ServerAddress) (raft.AppendPipeline, error) {
	if t.net.peer(to) == nil {
		return nil, errRefused
	}
	p := &pipeline{
		t: t, to: to, queue: make(chan *appendFuture, 8), done: make(chan raft.AppendFuture, 8),
		closed: make(chan struct{}),
	}
	p.shut = sync.OnceFunc(func() { close(p.closed) })
	t.net.w.all.Go(p.run)
	return p, nil
}

func (p *pipeline) run() {
	var broken error
	for {
		var f *appendFuture
		select {
		case f = <-p.queue:
		case <-p.closed:
			return
		case <-p.t.closed:
			return
		}
		if broken == nil {
			broken = answerInto(p.t, p.to, request{command: f.request}, rpcTimeout, f.response)
		}
		f.answer(broken)
		select {
		case p.done <- f:
		case <-p.closed:
			return
		case <-p.t.closed:
			return
		}
	}
}

// AppendEntries implements raft.AppendPipeline.
func (p *pipeline) AppendEntries(a *raft.AppendEntriesRequest, r *raft.AppendEntriesResponse) (raft.AppendFuture, error) {
	f := &appendFuture{start: time.Now(), request: a, response: r, done: make(chan struct{})}
	select {
	case p.queue <- f:
		return f, nil
	case <-p.closed:
	case <-p.t.closed:
	}
	return nil, raft.ErrPipelineShutdown
}

// Consumer implements raft.AppendPipeline.
func (p *pipeline) Consumer() <-chan raft.AppendFuture { return p.done }

// Close implements raft.AppendPipeline.
func (p *pipeline) Close() error {
	p.shut()
	return nil
}

// appendFuture is the answer to a request on a [pipeline].
type appendFuture struct {
	start    time.Time
	request  *raft.AppendEntriesRequest
	response *raft.AppendEntriesResponse
	done     chan struct{}
	err      error // set before answered is closed
}

func (f *appendFuture) answer(err error) {
	f.err = err
	close(f.done)
}

// Error implements raft.Future.
func (f *appendFuture) Error() error {
	<-f.done
	return f.err
}

// Start implements raft.AppendFuture.
func (f *appendFuture) Start() time.Time { return f.start }

// Request implements raft.AppendFuture.
func (f *appendFuture) Request() *raft.AppendEntriesRequest { return f.request }

// Response implements raft.AppendFuture.
func (f *appendFuture) Response() *raft.AppendEntriesResponse { return f.response }
