package node

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/raft"

	"github.com/txmgr/txmgr/raftfsm"
	"github.com/txmgr/txmgr/recovery"
	"github.com/txmgr/txmgr/timeout/survival"
	"github.com/txmgr/txmgr/txn"
	"github.com/txmgr/txmgr/txn/machine"
)

// Node is a running coordinator. Make one with [Open].
type Node struct {
	conf    Config
	logger  *slog.Logger
	storage *storage
	raft    *raft.Raft
	fsm     *raftfsm.FSM
	clock   *clock
	batcher *batcher
	keeper  *timekeeper
	hub     *hub
	members *members
	quotas  *quotas
	started time.Time

	leading  atomic.Bool
	held     atomic.Int64 // unfinished transactions after the latest entry
	closing  chan struct{}
	ready    chan struct{} // closed when this node has led for the first time
	failed   atomic.Pointer[error]
	failOnce sync.Once
	close    func() error // shutdown, once
	done     sync.WaitGroup

	recovery atomic.Pointer[recovery.Recovery] // nil unless leading

	mu      sync.Mutex
	ownSnap snapshotMeter // guarded by mu
}

var _ txn.Manager = (*Node)(nil)

// Open starts the coordinator whose state is in conf.DataDir, and returns when
// it serves: the log has been read and everything in it applied. ctx bounds that
// time only. Close ends it.
//
// Errors name what is wrong with the data directory: locked by another process,
// not writable, of another version, or damaged; nothing that is there is changed
// then.
func Open(ctx context.Context, conf Config) (*Node, error) {
	conf, err := conf.withDefaults()
	if err != nil {
		return nil, err
	}
	n := &Node{
		conf: conf, logger: conf.Logger, clock: new(clock), started: time.Now(),
		closing: make(chan struct{}), ready: make(chan struct{}),
	}
	n.close = sync.OnceValue(n.shutdown)
	n.hub = newHub(n.closing)
	n.members = newMembers(conf, n.cluster, n.registration)
	if n.storage, err = openStorage(conf.DataDir, n.fail, n.logger); err != nil {
		return nil, err
	}
	n.fsm = raftfsm.New(raftfsm.Config{OnApply: n.onApply, OnRestore: n.onRestore, OnFailure: n.fail})
	n.quotas = newQuotas(n.fsm.View)
	if n.raft, err = startRaft(n.storage, n.fsm, conf.trailing, n.logger); err != nil {
		return nil, errors.Join(err, n.storage.log.Close())
	}
	n.batcher = newBatcher(n.raft, n.clock, conf.wall)
	n.keeper = &timekeeper{clock: n.clock, batcher: n.batcher, view: n.fsm.View, checkpoint: conf.Checkpoint, wake: make(chan struct{}, 1)}
	n.done.Add(2)
	go func() { defer n.done.Done(); n.followLeadership() }()
	go func() { defer n.done.Done(); n.snapshotByBytes() }()
	if err := n.await(ctx); err != nil {
		return nil, errors.Join(err, n.Close())
	}
	return n, nil
}

// await returns when this node leads for the first time.
func (n *Node) await(ctx context.Context) error {
	select {
	case <-n.ready:
		if p := n.failed.Load(); p != nil {
			return *p
		}
		return nil
	case <-ctx.Done():
		return fmt.Errorf("starting the coordinator: %w", context.Cause(ctx))
	}
}

// fail is where every failure of the log arrives.
func (n *Node) fail(err error) {
	n.failOnce.Do(func() {
		n.failed.Store(&err)
		n.leading.Store(false)
		n.hub.rouse()
		n.conf.OnFailure(err)
	})
}

// Close stops the coordinator: calls on their way are answered, workers of phase
// two end what they are doing, the log is closed. The node stays a member.
func (n *Node) Close() error { return n.close() }

func (n *Node) shutdown() error {
	close(n.closing)
	n.done.Wait() // lays leadership down first
	n.batcher.close()
	err := n.raft.Shutdown().Error()
	if err != nil {
		err = fmt.Errorf("stopping raft: %w", err)
	}
	return errors.Join(err, n.members.close(), n.storage.log.Close())
}

// followLeadership takes up and lays down what only a leader does.
func (n *Node) followLeadership() {
	var term *leadership
	defer func() { term.end() }()
	for {
		select {
		case leads := <-n.raft.LeaderCh():
			term.end()
			if term = nil; leads {
				term = n.lead()
			}
		case <-n.closing:
			return
		}
	}
}

// leadership is what runs while this node leads.
type leadership struct {
	node *Node
	stop chan struct{}
	done sync.WaitGroup
}

// lead takes over: everything before this term is applied, then the batcher
// opens, the timeout thread runs, and recovery gets all undone work.
func (n *Node) lead() *leadership {
	if err := n.raft.Barrier(0).Error(); err != nil {
		n.logger.Warn("cannot take over", "error", err)
		return nil
	}
	n.batcher.lead(true)
	if err := n.found(); err != nil {
		n.batcher.lead(false)
		n.setupFailed(err)
		return nil
	}
	l := &leadership{node: n, stop: make(chan struct{})}
	boot := n.bootstrap()
	n.clock.observe(n.tick(), boot.Interval)
	conf := n.conf.Recovery
	conf.Cluster, conf.Swept = boot.Cluster, n.logSwept
	r := recovery.New(conf, log{n})
	r.Start()
	n.recovery.Store(r)
	l.done.Add(1)
	go func() { defer l.done.Done(); n.keeper.run(l.stop) }()
	n.leading.Store(true)
	n.feedUndone(r)
	select {
	case <-n.ready:
	default:
		close(n.ready)
	}
	n.logger.Debug("leading", "cluster", boot.Cluster, "tick", n.tick())
	return l
}

// logSwept tells operators of a branch that nobody drove and a sweep acted on.
func (n *Node) logSwept(f txn.Finding) {
	n.logger.Warn("sweep: a prepared branch that nobody drove", "participant", f.Participant, "xid", f.XID, "state", f.State, "verdict", f.Verdict, "done", f.Done, "error", f.Error)
}

// end lays leadership down. It is nil-safe.
func (l *leadership) end() {
	if l == nil {
		return
	}
	n := l.node
	n.leading.Store(false)
	n.hub.rouse()
	n.batcher.lead(false)
	close(l.stop)
	l.done.Wait()
	n.recovery.Swap(nil).Stop()
}

// setupFailed ends Open with an error: the cluster cannot be what the
// configuration says.
func (n *Node) setupFailed(err error) {
	if n.failed.CompareAndSwap(nil, &err) {
		n.logger.Error("cannot take over", "error", err)
	}
	select {
	case <-n.ready:
	default:
		close(n.ready)
	}
}

// found makes the cluster's configuration the first thing in the log, or checks
// that this node was given the same, and registers embedded participants.
func (n *Node) found() error {
	boot := n.bootstrap()
	if boot.Cluster == "" {
		boot = machine.Bootstrap{
			Cluster: newClusterTag(), Interval: orElse(n.conf.Interval, 100*time.Millisecond),
			Retention: orElse(n.conf.Retention, time.Hour), Retain: orElse(n.conf.Retain, 1_000_000),
		}
		res, err := n.batcher.propose(context.Background(), boot)
		if err != nil || res.Code != machine.OK {
			return fmt.Errorf("founding the cluster: code %d: %w", res.Code, err)
		}
	}
	for _, c := range []struct {
		name         string
		asked, fixed any
		zero         bool
	}{
		{"interval", n.conf.Interval, boot.Interval, n.conf.Interval == 0},
		{"retention", n.conf.Retention, boot.Retention, n.conf.Retention == 0},
		{"retain", n.conf.Retain, boot.Retain, n.conf.Retain == 0},
	} {
		if !c.zero && c.asked != c.fixed {
			return fmt.Errorf("%w: %s %v: this data directory was made with %v, which is fixed for ever; leave it out, or use another directory", txn.ErrConflict, c.name, c.asked, c.fixed)
		}
	}
	return n.registerEmbedded()
}

func orElse[T comparable](v, def T) T {
	var zero T
	if v == zero {
		return def
	}
	return v
}

// newClusterTag makes the tag in the cluster's XIDs: 30 bits of chance keep two
// clusters on one database apart.
func newClusterTag() string {
	const letters = "abcdefghijkmnpqrstuvwxyz23456789" // 32, none mistaken for another
	tag := make([]byte, 6)
	for i := range tag {
		tag[i] = letters[rand.IntN(len(letters))]
	}
	return string(tag)
}

// feedUndone hands recovery everything that is not finished: all that a new
// leader needs to take over. It goes in steps, so that the log goes on.
func (n *Node) feedUndone(r *recovery.Recovery) {
	const step = 10_000
	for from := uint32(0); ; {
		var ids []txn.ID
		n.fsm.View(func(m *machine.Machine) { ids, from = m.Undone(from, step) })
		r.Add(ids...)
		if from == 0 {
			return
		}
	}
}

// onApply is told of each applied entry, in order.
func (n *Node) onApply(_ uint64, fx *machine.Effects, tick survival.Tick) {
	var next survival.Tick
	var pending, due bool
	var boot machine.Bootstrap
	n.fsm.View(func(m *machine.Machine) {
		next, pending = horizon(m)
		due = m.Due()
		boot, _ = m.Bootstrap()
		n.held.Store(held(m))
		n.quotas.observe(m.Participants())
	})
	n.clock.observe(tick, boot.Interval)
	n.hub.publish(fx.Changes)
	r := n.recovery.Load()
	if r == nil {
		return // not leading: whoever leads does the rest
	}
	if due {
		n.batcher.wantTick()
	}
	n.keeper.observe(next, pending)
	if len(fx.Work) > 0 {
		r.Add(fx.Work...)
	}
	if len(fx.Handoffs) > 0 {
		n.handOff(r, fx.Handoffs)
	}
}

// held counts what memory has to hold until it is finished.
func held(m *machine.Machine) int64 {
	c := m.Counts()
	return int64(c.Open + c.Undone)
}

// onRestore is told that a snapshot has replaced the state.
func (n *Node) onRestore(tick survival.Tick) {
	n.fsm.View(func(m *machine.Machine) {
		n.held.Store(held(m))
		n.quotas.observe(m.Participants())
	})
	n.clock.observe(tick, n.bootstrap().Interval)
}

func (n *Node) bootstrap() (b machine.Bootstrap) {
	n.fsm.View(func(m *machine.Machine) { b, _ = m.Bootstrap() })
	return b
}

func (n *Node) cluster() string { return n.bootstrap().Cluster }

func (n *Node) interval() time.Duration { return n.bootstrap().Interval }

func (n *Node) registration(name string) (p txn.Participant, ok bool) {
	n.fsm.View(func(m *machine.Machine) { p, ok = m.Participant(name) })
	return p, ok
}

func (n *Node) tick() (t survival.Tick) {
	n.fsm.View(func(m *machine.Machine) { t = m.Tick() })
	return t
}

// Ready reports why the node does not serve; nil when it does.
func (n *Node) Ready() error {
	if p := n.failed.Load(); p != nil {
		return *p
	}
	if !n.leading.Load() {
		return fmt.Errorf("%w: this node does not lead and knows no leader", txn.ErrUnavailable)
	}
	return nil
}
