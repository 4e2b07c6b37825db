package sim

import (
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/raft"
)

// TestHeartbeatWhileElected lets a node receive a heartbeat of the leader of the next term while it
// wins its own election, and while its disk is slow to write that term. It leads in the term in
// which it was elected or not at all.
func TestHeartbeatWhileElected(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(Plan{Seed: 1, Nodes: 3, FaultTime: time.Second, Apps: 1})
		p := &fakePeers{w: w, b: w.hosts[0], stop: make(chan struct{})}
		for _, h := range w.hosts[1:] {
			tr := w.net.attach(h)
			p.done.Go(func() { p.serve(tr) })
		}
		p.b.start()
		sleep(10 * time.Second)
		p.mu.Lock()
		if p.elected == 0 || !p.answered {
			t.Errorf("asked for votes in term %d, heard of another leader: %v: nothing was tried", p.elected, p.answered)
		}
		if p.foreign > 0 {
			t.Errorf("the node that was elected in term %d has written entries of term %d", p.elected, p.foreign)
		}
		p.mu.Unlock()
		close(p.stop)
		p.done.Wait()
		p.b.crash()
		w.awaitEnd()
	})
}

// fakePeers are the two other nodes of a cluster, simulated by the test.
type fakePeers struct {
	w    *World
	b    *host
	stop chan struct{}
	done sync.WaitGroup

	mu       sync.Mutex // guards all below
	elected  uint64     // the term
	answered bool       // the node has answered the other leader
	foreign  uint64     // the term of an entry that is not of the term of its election
}

// serve answers for one of them: as a follower without other work.
func (p *fakePeers) serve(tr *transport) {
	for {
		select {
		case rpc := <-tr.requests:
			p.answer(tr, rpc)
		case <-p.stop:
			return
		}
	}
}

func (p *fakePeers) answer(tr *transport, rpc raft.RPC) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch c := rpc.Command.(type) {
	case *raft.RequestPreVoteRequest:
		rpc.Respond(&raft.RequestPreVoteResponse{RPCHeader: c.RPCHeader, Term: c.Term, Granted: p.elected == 0}, nil)
	case *raft.RequestVoteRequest:
		if p.elected == 0 { // no other node answers
			p.elected = c.Term
			p.done.Go(func() { p.outrun(tr, rpc, c.Term) })
		}
	case *raft.AppendEntriesRequest:
		last := c.PrevLogEntry
		for _, e := range c.Entries {
			last = e.Index
			if e.Term > 1 && e.Term != p.elected { // 1 is that of the configuration
				p.foreign = e.Term
			}
		}
		rpc.Respond(&raft.AppendEntriesResponse{RPCHeader: c.RPCHeader, Term: c.Term, LastLog: last, Success: true}, nil)
	}
}

// outrun grants a vote, a moment after a heartbeat of the leader of the next term.
func (p *fakePeers) outrun(tr *transport, vote raft.RPC, term uint64) {
	p.b.slow(2 * time.Second)
	header := raft.RPCHeader{ProtocolVersion: raft.ProtocolVersionMax, ID: []byte(tr.host.name), Addr: []byte(tr.host.addr)}
	p.done.Go(func() {
		timer := time.NewTimer(5 * time.Second)
		defer timer.Stop()
		beat := &raft.AppendEntriesRequest{RPCHeader: header, Term: term + 1}
		a, err := p.w.net.peer(p.b.addr).handle(request{command: beat, heartbeat: true}, timer)
		p.mu.Lock()
		defer p.mu.Unlock()
		p.answered = err == nil && a.Error == nil
	})
	sleep(10 * time.Millisecond)
	vote.Respond(&raft.RequestVoteResponse{RPCHeader: header, Term: term, Granted: true}, nil)
	sleep(3 * time.Second)
	p.b.slow(time.Millisecond)
}
