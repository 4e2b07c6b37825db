package sim

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"sync"
	"time"

	"github.com/hashicorp/raft"
)

// network carries messages between the hosts, subject to the present faults.
type network struct {
	w   *World
	rng *rng

	mu       sync.Mutex // guards all below
	at       map[raft.ServerAddress]*transport
	cut      map[[2]int]bool                              // from, to
	lost     int                                          // of 1,000 messages
	twice    int                                          // of 1,000 requests
	slow     time.Duration                                // the longest delay
	reads    map[[2]int]bool                              // host, participant: cut
	drops    func(from, to int, command, answer any) bool // for one test: answers that are lost; nil: none
	messages int
}

func newNetwork(w *World) *network {
	return &network{
		w: w, rng: newRNG(w.plan.Seed, 2), slow: 2 * time.Millisecond,
		at: map[raft.ServerAddress]*transport{}, cut: map[[2]int]bool{}, reads: map[[2]int]bool{},
	}
}

var (
	errLost    = errors.New("sim: no answer")
	errRefused = errors.New("sim: connection refused")
)

// deliver delays one message; false if it is lost.
func (n *network) deliver(from, to int) bool {
	n.mu.Lock()
	n.messages++
	slow, lost, cut := n.slow, n.lost, n.cut[[2]int{from, to}]
	n.mu.Unlock()
	sleep(n.rng.between(50*time.Microsecond, slow))
	switch {
	case cut:
		n.w.countFault("message cut off")
		return false
	case lost > 0 && n.rng.n(1000) < lost:
		n.w.countFault("message lost")
		return false
	}
	return true
}

// reaches reports whether messages get from one host to another now.
func (n *network) reaches(from, to int) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return !n.cut[[2]int{from, to}]
}

// set cuts one direction, or heals it.
func (n *network) set(from, to int, cut bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if cut {
		n.cut[[2]int{from, to}] = true
	} else {
		delete(n.cut, [2]int{from, to})
	}
}

// change sets the faults of the network.
func (n *network) change(set func(*network)) {
	n.mu.Lock()
	defer n.mu.Unlock()
	set(n)
}

func (n *network) heal() {
	n.change(func(n *network) {
		n.cut, n.reads = map[[2]int]bool{}, map[[2]int]bool{}
		n.lost, n.twice, n.slow = 0, 0, 2*time.Millisecond
	})
}

func (n *network) peer(a raft.ServerAddress) *transport {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.at[a]
}

// transport is raft's transport for one process.
type transport struct {
	net      *network
	host     *host
	requests chan raft.RPC
	closed   chan struct{}
	shut     func()

	mu        sync.Mutex
	heartbeat func(raft.RPC) // guarded by mu
}

var (
	_ raft.Transport   = (*transport)(nil)
	_ raft.WithPreVote = (*transport)(nil)
	_ raft.WithClose   = (*transport)(nil)
)

// attach connects a new process of a host to the network.
func (n *network) attach(h *host) *transport {
	t := &transport{net: n, host: h, requests: make(chan raft.RPC, 16), closed: make(chan struct{})}
	t.shut = sync.OnceFunc(func() { close(t.closed) })
	n.mu.Lock()
	defer n.mu.Unlock()
	n.at[h.addr] = t
	return t
}

// Close implements raft.WithClose.
func (t *transport) Close() error {
	t.shut()
	return nil
}

// The timeouts of callers. Real ones are longer, where that makes no difference.
const (
	rpcTimeout      = time.Second
	snapshotTimeout = 10 * time.Second
)

// request is one call in transit.
type request struct {
	command   any
	body      []byte // the body of a snapshot
	complete  bool   // the body arrives completely
	heartbeat bool
}

// call carries a request to the target and the answer back.
func (t *transport) call(target raft.ServerAddress, r request, patience time.Duration) (any, error) {
	t.host.gate.pass()
	select {
	case <-t.closed:
		return nil, raft.ErrTransportShutdown
	default:
	}
	peer := t.net.peer(target)
	if peer == nil {
		return nil, errRefused
	}
	timer := time.NewTimer(patience)
	defer timer.Stop()
	to := peer.host.index
	if !t.net.deliver(t.host.index, to) {
		t.awaitTimeout(timer)
		return nil, errLost
	}
	t.duplicate(peer, r)
	answer, err := peer.handle(r, timer)
	if err != nil {
		return nil, err
	}
	peer.host.gate.pass()
	t.net.mu.Lock()
	eats := t.net.drops
	t.net.mu.Unlock()
	if eats != nil && eats(t.host.index, to, r.command, answer.Response) {
		return nil, errLost
	}
	if !t.net.deliver(to, t.host.index) {
		t.net.w.countFault("answer lost")
		t.awaitTimeout(timer)
		return nil, errLost
	}
	t.host.gate.pass()
	return answer.Response, answer.Error
}

// awaitTimeout waits as a caller without an answer does: until the connection breaks, or the
// timeout has passed.
func (t *transport) awaitTimeout(timer *time.Timer) {
	soon := t.net.rng.between(50*time.Millisecond, 2*rpcTimeout)
	if t.net.rng.oneIn(10) {
		soon = snapshotTimeout
	}
	broken := time.NewTimer(soon)
	defer broken.Stop()
	select {
	case <-timer.C:
	case <-broken.C:
	case <-t.closed:
	}
}

// duplicate delivers a request once more, later, as if it was repeated on another connection.
func (t *transport) duplicate(peer *transport, r request) {
	t.net.mu.Lock()
	twice := t.net.twice
	t.net.mu.Unlock()
	if r.heartbeat || twice == 0 || t.net.rng.n(1000) >= twice {
		return
	}
	again, late := r, 1500*time.Millisecond
	switch c := r.command.(type) {
	case *raft.AppendEntriesRequest:
		copied := *c
		again.command = &copied
		t.net.w.countFault("message twice")
	case *raft.InstallSnapshotRequest:
		copied := *c
		again.command, late = &copied, 8*time.Second
		t.net.w.countFault("snapshot twice")
	default:
		return
	}
	t.net.w.all.Go(func() {
		sleep(t.net.rng.between(time.Millisecond, late))
		timer := time.NewTimer(rpcTimeout)
		defer timer.Stop()
		_, _ = peer.handle(again, timer)
	})
}

// handle delivers the request to the receiver and waits for its answer.
func (t *transport) handle(r request, timer *time.Timer) (a raft.RPCResponse, err error) {
	t.host.gate.pass()
	answer := make(chan raft.RPCResponse, 1)
	rpc := raft.RPC{Command: r.command, RespChan: answer}
	if r.body != nil {
		rpc.Reader = &brokenReader{Reader: bytes.NewReader(r.body), complete: r.complete}
	}
	t.mu.Lock()
	beat := t.heartbeat
	t.mu.Unlock()
	select {
	case <-t.closed:
		return a, errRefused
	default:
	}
	if r.heartbeat && beat != nil {
		beat(rpc)
	} else {
		select {
		case t.requests <- rpc:
		case <-t.closed:
			return a, errRefused
		case <-timer.C:
			return a, errLost
		}
	}
	select {
	case a = <-answer:
		return a, nil
	case <-t.closed:
		return a, errRefused
	case <-timer.C:
		return a, errLost
	}
}

// brokenReader is a stream that may break at its end.
type brokenReader struct {
	io.Reader
	complete bool
}

func (t *brokenReader) Read(p []byte) (int, error) {
	n, err := t.Reader.Read(p)
	if err == io.EOF && !t.complete {
		return n, io.ErrUnexpectedEOF
	}
	return n, err
}

// Consumer implements raft.Transport.
func (t *transport) Consumer() <-chan raft.RPC { return t.requests }

// LocalAddr implements raft.Transport.
func (t *transport) LocalAddr() raft.ServerAddress { return t.host.addr }

// EncodePeer implements raft.Transport.
func (t *transport) EncodePeer(_ raft.ServerID, a raft.ServerAddress) []byte { return []byte(a) }

// DecodePeer implements raft.Transport.
func (t *transport) DecodePeer(b []byte) raft.ServerAddress { return raft.ServerAddress(b) }

// SetHeartbeatHandler implements raft.Transport.
func (t *transport) SetHeartbeatHandler(fn func(raft.RPC)) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.heartbeat = fn
}

// AppendEntries implements raft.Transport.
func (t *transport) AppendEntries(_ raft.ServerID, to raft.ServerAddress, a *raft.AppendEntriesRequest, r *raft.AppendEntriesResponse) error {
	beat := a.Term != 0 && a.PrevLogEntry == 0 && a.PrevLogTerm == 0 && len(a.Entries) == 0 && a.LeaderCommitIndex == 0
	req := *a
	return answerInto(t, to, request{command: &req, heartbeat: beat}, rpcTimeout, r)
}

// RequestVote implements raft.Transport.
func (t *transport) RequestVote(_ raft.ServerID, to raft.ServerAddress, a *raft.RequestVoteRequest, r *raft.RequestVoteResponse) error {
	return answerInto(t, to, request{command: a}, rpcTimeout, r)
}

// RequestPreVote implements raft.WithPreVote.
func (t *transport) RequestPreVote(_ raft.ServerID, to raft.ServerAddress, a *raft.RequestPreVoteRequest, r *raft.RequestPreVoteResponse) error {
	return answerInto(t, to, request{command: a}, rpcTimeout, r)
}

// TimeoutNow implements raft.Transport.
func (t *transport) TimeoutNow(_ raft.ServerID, to raft.ServerAddress, a *raft.TimeoutNowRequest, r *raft.TimeoutNowResponse) error {
	return answerInto(t, to, request{command: a}, snapshotTimeout, r)
}

// InstallSnapshot implements raft.Transport.
func (t *transport) InstallSnapshot(_ raft.ServerID, to raft.ServerAddress, a *raft.InstallSnapshotRequest, r *raft.InstallSnapshotResponse, data io.Reader) error {
	body, err := io.ReadAll(data)
	if err != nil {
		return err
	}
	t.net.w.countFault("snapshot sent")
	whole := true
	t.net.mu.Lock()
	bad := t.net.lost > 0
	t.net.mu.Unlock()
	if bad && t.net.rng.oneIn(3) {
		whole = false
		body = body[:t.net.rng.n(len(body)+1)]
		t.net.w.countFault("snapshot torn")
	}
	if body == nil {
		body = []byte{}
	}
	err = answerInto(t, to, request{command: a, body: body, complete: whole}, snapshotTimeout, r)
	if err != nil && strings.Contains(err.Error(), "older than what this node has applied") {
		t.net.w.countFault("older snapshot refused")
	}
	return err
}

func answerInto[T any](t *transport, to raft.ServerAddress, r request, patience time.Duration, into *T) error {
	answer, err := t.call(to, r, patience)
	if err != nil {
		return err
	}
	*into = *answer.(*T)
	return nil
}
