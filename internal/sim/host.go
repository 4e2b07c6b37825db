package sim

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/raft"

	"github.com/txmgr/txmgr/internal/simenv"
	"github.com/txmgr/txmgr/node"
	"github.com/txmgr/txmgr/participant"
)

// pauseGate blocks callers while it is closed.
type pauseGate struct {
	mu   sync.Mutex
	open chan struct{} // guarded by mu: nil unless it is closed
}

func (g *pauseGate) pass() {
	for {
		g.mu.Lock()
		open := g.open
		g.mu.Unlock()
		if open == nil {
			return
		}
		<-open
	}
}

func (g *pauseGate) set(shut bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	switch {
	case shut && g.open == nil:
		g.open = make(chan struct{})
	case !shut && g.open != nil:
		close(g.open)
		g.open = nil
	}
}

// suspendableClock is a clock that stops while its machine is suspended.
type suspendableClock struct {
	mu        sync.Mutex
	suspended time.Duration // guarded by mu: the total
	since     time.Time     // guarded by mu: zero unless it is suspended
}

func (s *suspendableClock) now() time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	if !s.since.IsZero() {
		now = s.since
	}
	return now.Add(-s.suspended)
}

func (s *suspendableClock) suspend(on bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case on && s.since.IsZero():
		s.since = time.Now()
	case !on && !s.since.IsZero():
		s.suspended += time.Since(s.since)
		s.since = time.Time{}
	}
}

// host is a machine on which a node runs, one process after another.
type host struct {
	w         *World
	index     int
	name      string
	addr      raft.ServerAddress
	gate      *pauseGate
	clock     suspendableClock
	wall      atomic.Int64 // the error of the wall clock
	diskFault atomic.Int32 // the present fault of the disk

	mu       sync.Mutex // guards all below
	disk     *disk
	process  *process // nil while it does not run
	starting bool
}

// process is one run of a node.
type process struct {
	host *host
	node *node.Node
	tr   *transport
	dead chan struct{}
}

func newHost(w *World, i int) *host {
	name := fmt.Sprintf("n%d", i+1)
	h := &host{w: w, index: i, name: name, addr: raft.ServerAddress(name + ":7461"), gate: new(pauseGate)}
	h.disk = newDisk(h)
	return h
}

func (h *host) servers() (list []raft.Server) {
	for _, o := range h.w.hosts {
		list = append(list, raft.Server{ID: raft.ServerID(o.name), Address: o.addr})
	}
	return list
}

// snapshotBytes makes logs small, so that snapshots are taken and installed.
const snapshotBytes = 4 << 10

// start starts a process. Nothing waits for a lock meanwhile, which would stop the time of the
// bubble.
func (h *host) start() {
	h.mu.Lock()
	busy, disk := h.process != nil || h.starting || h.diskFault.Load() != diskHealthy, h.disk
	h.starting = h.starting || !busy
	h.mu.Unlock()
	if busy {
		return
	}
	l := &process{host: h, tr: h.w.net.attach(h), dead: make(chan struct{})}
	bytes, tune := uint64(snapshotBytes), func(*raft.Config) {}
	if cut := h.w.plan.Cut; cut > 0 {
		bytes, tune = 1<<30, func(c *raft.Config) { c.TrailingLogs = cut }
	}
	conf := node.Config{
		Interval: h.w.interval(), SnapshotBytes: bytes, Retention: h.w.plan.Memory.Retention, Retain: h.w.plan.Memory.Retain,
		SimEnv: &simenv.Env{
			ID: raft.ServerID(h.name), Transport: l.tr, Log: disk, Snapshots: snapshotDir{disk}, Servers: h.servers(),
			TuneRaft:         tune,
			BlockWhilePaused: h.gate.pass,
			Wall:             func() time.Time { return time.Now().Add(time.Duration(h.wall.Load())) },
			Monotonic:        h.clock.now,
		},
		Participants: map[string]participant.Participant{
			"bank": h.w.pg.participantFor(l), "stock": h.w.maria.participantFor(l), "post": h.w.web.participantFor(l),
		},
		Logger: h.w.logger(h.name),
		OnFailure: func(err error) {
			select {
			case <-l.dead:
			default:
				if errors.Is(err, errDisk) {
					l.stop(err)
					return
				}
				h.w.violate("%s: the log failed: %v", h.name, err)
			}
		},
	}
	disk.OnFailure(conf.OnFailure) // until the node sets its own
	n, err := node.Open(context.Background(), conf)
	if err != nil && !errors.Is(err, errDisk) {
		h.w.violate("%s does not start: %v", h.name, err)
		return
	}
	h.mu.Lock()
	h.starting = false
	l.node = n
	ended := false
	select {
	case <-l.dead:
		ended = true
	default:
		h.process = l // without a node if its disk fails: then it is about to end
	}
	h.mu.Unlock()
	if ended && n != nil {
		h.w.all.Go(func() { _ = n.Close() })
	}
	h.w.tracef("%s starts", h.name)
}

// crash ends the process.
func (h *host) crash() bool {
	l := h.running()
	return l != nil && h.end(l)
}

// end ends a process that runs, or is about to; false if it has ended before.
func (h *host) end(l *process) bool {
	h.mu.Lock()
	select {
	case <-l.dead:
		h.mu.Unlock()
		return false
	default:
	}
	close(l.dead)
	l.tr.shut()
	h.process = nil
	h.disk = h.disk.crash()
	n := l.node
	h.mu.Unlock()
	h.gate.set(false) // its remaining goroutines have to end
	h.w.tracef("%s crashes", h.name)
	h.w.countFault("crash")
	if n != nil {
		h.w.all.Go(func() { _ = n.Close() }) // its result does not matter
	}
	return true
}

// running returns the present process; nil if there is none.
func (h *host) running() *process {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.process == nil || h.process.node == nil {
		return nil
	}
	return h.process
}

// slow sets the longest duration of a sync.
func (h *host) slow(d time.Duration) {
	h.mu.Lock()
	disk := h.disk
	h.mu.Unlock()
	disk.mu.Lock()
	defer disk.mu.Unlock()
	disk.slow = d
}

// leader returns a process that considers itself the leader; nil if there is none.
func (w *World) leader() *process {
	for _, h := range w.hosts {
		if l := h.running(); l != nil {
			if _, here := l.node.Leader(); here {
				return l
			}
		}
	}
	return nil
}

// interval is the interval of the cluster, drawn from the seed.
func (w *World) interval() time.Duration {
	return []time.Duration{20, 50, 100, 100}[w.plan.Seed%4] * time.Millisecond
}
