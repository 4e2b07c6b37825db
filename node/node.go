package node

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/raft"

	"github.com/txmgr/txmgr/internal/bed"
	"github.com/txmgr/txmgr/internal/latency"
	"github.com/txmgr/txmgr/internal/spool"
	"github.com/txmgr/txmgr/node/peer"
	"github.com/txmgr/txmgr/raftfsm"
	"github.com/txmgr/txmgr/recovery"
	"github.com/txmgr/txmgr/timeout/survival"
	"github.com/txmgr/txmgr/txn"
	"github.com/txmgr/txmgr/txn/machine"
)

// Node is a running coordinator. Make one with [Open].
type Node struct {
	conf       Config
	logger     *slog.Logger
	storage    *ground
	raft       *raft.Raft
	reads      *verifier
	port       *peer.Port         // nil when alone, and in the simulation
	stuck      chan raft.ServerID // nodes that the livelock of raft has caught
	late       *latency.Histogram
	calls      callTimes
	lines      lines
	fsm        *raftfsm.FSM
	clock      *clock
	batcher    *batcher
	keeper     *timekeeper
	hub        *hub
	members    *members
	quotas     *quotas
	optimizers optimizers
	started    time.Time
	steward    steward
	moves      moves

	transfers transfers
	contacts  contacts

	founding sync.Mutex                 // one change of who takes part at a time
	running  atomic.Bool                // everything above is there
	gone     atomic.Bool                // this node has left its cluster
	waiting  atomic.Pointer[string]     // what it waits for before it belongs to a cluster
	known    atomic.Pointer[allegiance] // as it was noted on disk
	promised atomic.Pointer[founding]   // what it consented to, as it was noted on disk

	leading  atomic.Bool
	term     atomic.Uint64 // the latest one in which this node took over; what it wrote then may be applied after its end
	held     atomic.Int64  // unfinished transactions after the latest entry
	closing  chan struct{}
	life     context.Context // ends with closing
	die      context.CancelFunc
	ready    chan struct{} // closed when this node has led for the first time
	failed   atomic.Pointer[error]
	stalled  atomic.Pointer[error] // set by the watchdog while nothing moves
	failOnce sync.Once
	close    func() error // shutdown, once
	done     sync.WaitGroup

	recovery atomic.Pointer[recovery.Recovery] // nil unless leading
	pulse    atomic.Pointer[pulse]             // likewise

	measured logMeter
	mu       sync.Mutex // held while something is started in the background, and while closing is closed
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
		late: latency.New(),
		conf: conf, logger: conf.Logger, lines: newLines(), clock: &clock{read: conf.steady}, started: time.Now(),
		closing: make(chan struct{}), ready: make(chan struct{}), stuck: make(chan raft.ServerID, 1),
	}
	if conf.Bed == nil { // the simulation, whose log is never stuck, tells in order what each node says
		n.logger = spool.Wrap(conf.Logger)
	}
	if conf.OnFailure == nil {
		n.conf.OnFailure = n.endProcess
	}
	n.life, n.die = context.WithCancel(context.Background())
	n.moves.configured = n.addressOf
	n.close = sync.OnceValue(n.shutdown)
	if n.hub, err = newHub(n.closing); err != nil {
		n.die()
		return nil, err
	}
	n.members = newMembers(conf, n.cluster, n.registration)
	if n.storage, err = n.stand(); err != nil {
		n.die()
		n.hub.waits.close()
		return nil, err
	}
	n.fsm = raftfsm.New(raftfsm.Config{OnApply: n.onApply, OnRestore: n.onRestore, OnFailure: n.fail})
	n.quotas = newQuotas(n.fsm.View)
	n.storage.appending = n.appending
	if err := n.measureLog(); err != nil {
		n.die()
		n.hub.waits.close()
		return nil, errors.Join(fmt.Errorf("measuring the log: %w", err), n.closePort(), n.storage.log.Close())
	}
	n.storage.transport = watchTransport(n.storage.transport, n.stuck, &n.contacts)
	if n.raft, err = startRaft(n.storage, n.fsm, conf.trailing, n.logger); err != nil {
		n.die()
		n.hub.waits.close()
		return nil, errors.Join(err, n.closePort(), n.storage.log.Close())
	}
	n.reads = &verifier{ask: n.verifyLeader}
	n.batcher = newBatcher(n.raft, n.clock, conf.wall)
	n.keeper = &timekeeper{clock: n.clock, batcher: n.batcher, view: n.fsm.View, checkpoint: conf.Checkpoint, wake: make(chan struct{}, 1)}
	n.done.Add(3)
	go func() { defer n.done.Done(); n.freeStuck() }()
	go func() { defer n.done.Done(); n.followLeadership() }()
	go func() { defer n.done.Done(); n.snapshotByBytes() }()
	n.running.Store(true)
	n.done.Go(func() { newWatchdog(n).run(n.closing) })
	if n.port != nil {
		n.done.Go(n.form)
		n.done.Go(n.mind)
	}
	if !n.storage.alone {
		return n, nil
	}
	if err := n.await(ctx); err != nil {
		return nil, errors.Join(err, n.Close())
	}
	return n, nil
}

// stand opens what the node stands on.
func (n *Node) stand() (*ground, error) {
	if n.conf.Bed != nil {
		if f, ok := n.conf.Bed.Log.(bed.Failer); ok {
			f.OnFailure(n.fail)
		}
		return bedGround(n.conf.Bed), nil
	}
	s, err := openStorage(n.conf.DataDir, n.fail, n.logger)
	if err != nil {
		return nil, err
	}
	if n.conf.Cluster == nil {
		return aloneGround(s), nil
	}
	g, err := n.clusterGround(s)
	if err != nil {
		return nil, errors.Join(err, s.log.Close())
	}
	return g, nil
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
		n.conf.OnFailure(err) // first: what has failed may be in the way of all else
		n.hub.waits.rouse()
	})
}

// endProcess is what a failure of the log comes to, unless the configuration says otherwise.
func (n *Node) endProcess(err error) {
	n.logger.Error("the coordinator cannot go on: the process ends, so that nothing is acknowledged that may be lost and another node can lead", "error", err)
	spool.Flush(n.logger)
	os.Exit(1)
}

// Close stops the coordinator: calls on their way are answered, workers of phase
// two end what they are doing, the log is closed. The node stays a member.
func (n *Node) Close() error { return n.close() }

func (n *Node) shutdown() error {
	defer spool.Flush(n.logger)
	n.StepDown()
	n.mu.Lock()
	close(n.closing)
	n.mu.Unlock()
	n.die()
	n.hub.waits.close()
	stay := n.cutOffLater()
	n.done.Wait() // lays leadership down first
	n.batcher.close()
	n.reads.close() // raft does not answer questions that it is asked while it stops
	stay()
	// Nor those of other nodes' questions; and it waits for a node that is halted in the
	// middle of a snapshot until that has gone.
	err := n.closePort()
	if stopped := n.raft.Shutdown().Error(); stopped != nil {
		err = errors.Join(err, fmt.Errorf("stopping raft: %w", stopped))
	}
	return errors.Join(err, n.members.close(), n.storage.log.Close())
}

func (n *Node) closePort() error {
	if n.port == nil {
		return nil
	}
	return n.port.Close()
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
			Cluster: newClusterTag(), Interval: orElse(n.conf.Interval, DefaultInterval),
			Retention: orElse(n.conf.Retention, DefaultRetention), Retain: orElse(n.conf.Retain, 1_000_000),
		}
		res, err := n.batcher.propose(context.Background(), boot)
		if err != nil {
			return fmt.Errorf("founding the cluster: %w", err)
		}
		if res.Code != machine.OK {
			return fmt.Errorf("founding the cluster: code %d", res.Code)
		}
	}
	if err := n.agrees(boot); err != nil {
		if n.storage.alone {
			return err
		}
		n.logger.Warn("a setting of this node is not the cluster's, which rules", "error", err)
	}
	return n.registerEmbedded()
}

// agrees compares what the configuration asks for with what was fixed when the
// cluster was founded.
func (n *Node) agrees(boot machine.Bootstrap) error {
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
	return nil
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

// onApply is told of each applied entry, in order.
func (n *Node) onApply(at raftfsm.Position, fx *machine.Effects, tick survival.Tick) {
	var next survival.Tick
	var pending, due bool
	var boot machine.Bootstrap
	n.fsm.View(func(m *machine.Machine) {
		next, pending = horizon(m)
		due = m.Due()
		boot, _ = m.Bootstrap()
	})
	n.recount()
	n.clock.observe(tick, boot.Interval, at, at.Term == n.term.Load())
	n.hub.publish(fx.Changes)
	if p := n.pulse.Load(); p != nil && len(fx.Opened)+len(fx.Closed) > 0 {
		p.admit(fx.Opened)
		p.forget(fx.Closed)
	}
	r := n.recovery.Load()
	if r == nil {
		return // not leading: whoever leads does the rest
	}
	n.logApplied(at.Index, fx)
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

// recount takes over from the machine what calls are admitted by: how many transactions are unfinished, and the quotas of
// the participants.
func (n *Node) recount() {
	var unfinished int64
	var registered []machine.Registration
	n.fsm.View(func(m *machine.Machine) {
		c := m.Counts()
		unfinished, registered = int64(c.Open+c.Undone), m.Participants()
	})
	n.held.Store(unfinished)
	n.quotas.observe(registered)
	n.optimizers.observe(registered)
}

// onRestore is told that a snapshot has replaced the state.
func (n *Node) onRestore(tick survival.Tick) {
	n.recount()
	n.clock.observe(tick, n.bootstrap().Interval, raftfsm.Position{}, false)
	n.hub.replaced()
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
