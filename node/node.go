package node

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/raft"

	"github.com/txmgr/txmgr/internal/asynclog"
	"github.com/txmgr/txmgr/internal/latency"
	"github.com/txmgr/txmgr/internal/random"
	"github.com/txmgr/txmgr/internal/simenv"
	"github.com/txmgr/txmgr/node/membership"
	"github.com/txmgr/txmgr/node/notify"
	"github.com/txmgr/txmgr/node/participants"
	"github.com/txmgr/txmgr/node/proposal"
	"github.com/txmgr/txmgr/node/raftguard"
	"github.com/txmgr/txmgr/node/readindex"
	"github.com/txmgr/txmgr/node/snapshots"
	"github.com/txmgr/txmgr/node/storage"
	"github.com/txmgr/txmgr/node/ticks"
	"github.com/txmgr/txmgr/raftfsm"
	"github.com/txmgr/txmgr/timeout/survival"
	"github.com/txmgr/txmgr/txn"
	"github.com/txmgr/txmgr/txn/admin"
	"github.com/txmgr/txmgr/txn/machine"
)

// Node is a running coordinator. Make one with [Open].
type Node struct {
	conf         Config
	logger       *slog.Logger
	env          *raftguard.Env
	raft         *raft.Raft
	readIndex    *readindex.ReadIndex
	cluster      *membership.Cluster
	snapshots    *snapshots.Scheduler
	timeoutLag   *latency.Histogram
	callTimes    callTimes
	timeoutLog   timeoutLogger
	fsm          *raftfsm.FSM
	clock        *ticks.Clock
	proposals    *proposal.Queue
	notifier     *notify.Notifier
	participants *participants.Registry
	quotas       *participants.Quotas
	optimizers   participants.Optimizers
	started      time.Time
	acks         readindex.AckTracker

	leadership atomic.Pointer[leadership] // what runs in the present term; nil unless this node leads
	term       atomic.Uint64              // the latest one in which this node took over; its entries may be applied after the end of the term
	unfinished atomic.Int64               // unfinished transactions after the latest entry
	closing    chan struct{}
	baseCtx    context.Context // ends with closing
	cancelBase context.CancelFunc
	ready      chan struct{} // closed when this node has led for the first time
	failed     atomic.Pointer[error]
	stalled    atomic.Pointer[error] // set by the watchdog while the log makes no progress
	failOnce   sync.Once
	close      func() error // runs shutdown once
	done       sync.WaitGroup

	mu sync.Mutex // held while a background goroutine is started, and while closing is closed
}

var _ txn.Manager = (*Node)(nil)

// ErrDamaged: the content of a data directory does not form a complete state any more. Nothing was
// changed. Restore a copy of the whole directory.
var ErrDamaged = storage.ErrDamaged

// Open starts the coordinator whose state is in conf.DataDir. A single node is returned when it
// serves: the log has been read and everything in it applied. A node with [Config.Cluster] is
// returned before that; see [Node.Ready]. ctx bounds that time only. Close ends the coordinator.
//
// Errors state what is wrong with the data directory: locked by another process, not writable,
// of another version, or damaged. Then nothing in it is changed.
func Open(ctx context.Context, conf Config) (*Node, error) {
	conf, err := conf.withDefaults()
	if err != nil {
		return nil, err
	}
	n := &Node{
		timeoutLag: latency.New(),
		conf:       conf, logger: conf.Logger, timeoutLog: newTimeoutLogger(), clock: ticks.NewClock(conf.monotonic), started: time.Now(),
		closing: make(chan struct{}), ready: make(chan struct{}),
	}
	if conf.SimEnv == nil { // in the simulation the logger never blocks, and the lines of all nodes stay in order
		n.logger = asynclog.Wrap(conf.Logger)
	}
	if conf.OnFailure == nil {
		n.conf.OnFailure = n.exitProcess
	}
	n.baseCtx, n.cancelBase = context.WithCancel(context.Background())
	n.close = sync.OnceValue(n.shutdown)
	if n.notifier, err = notify.New(n.closing); err != nil {
		n.cancelBase()
		return nil, err
	}
	n.participants = participants.NewRegistry(conf.Drivers, conf.Participants, n.clusterID, n.registration)
	n.fsm = raftfsm.New(raftfsm.Config{OnApply: n.onApply, OnRestore: n.onRestore, OnFailure: n.fail})
	if err := n.openEnv(); err != nil {
		n.cancelBase()
		n.notifier.Close()
		return nil, err
	}
	n.quotas = participants.NewQuotas(n.fsm.View)
	n.env.OnAppend = n.onAppend
	if n.snapshots, err = snapshots.New(n.env.Log, n.env.Snapshots, conf.SnapshotBytes, n.logger); err != nil {
		n.cancelBase()
		n.notifier.Close()
		return nil, errors.Join(fmt.Errorf("measuring the log: %w", err), n.cluster.Close(), n.env.Log.Close())
	}
	n.env.Transport = raftguard.Transport(n.env.Transport, n.snapshots.Loops(), &n.acks)
	if n.raft, err = raftguard.Start(n.env, n.fsm, conf.trailingLogs, n.logger); err != nil {
		n.cancelBase()
		n.notifier.Close()
		return nil, errors.Join(err, n.cluster.Close(), n.env.Log.Close())
	}
	n.snapshots.SetRaft(n.raft)
	n.readIndex = readindex.New(func() error { return n.acks.VerifyLeader(n.raft, n.env.ID, n.term.Load()) })
	n.proposals = proposal.New(n.raft, n.clock, conf.wall)
	n.cluster.Start(n.raft, n.proposals)
	n.done.Add(3)
	go func() { defer n.done.Done(); n.snapshots.BreakLoops(n.closing, n.proposals.RequestTick) }()
	go func() { defer n.done.Done(); n.monitorLeadership() }()
	go func() { defer n.done.Done(); n.snapshots.Run(n.closing) }()
	n.done.Go(func() { newWatchdog(n).run(n.closing) })
	if n.conf.Cluster != nil {
		n.done.Go(n.cluster.Run)
	}
	if !n.env.SingleNode {
		return n, nil
	}
	if err := n.awaitLeadership(ctx); err != nil {
		return nil, errors.Join(err, n.Close())
	}
	return n, nil
}

// openStorage opens the node's disk. The environment of a node of a cluster has no transport yet.
func (n *Node) openStorage() (*raftguard.Env, error) {
	if n.conf.SimEnv != nil {
		if f, ok := n.conf.SimEnv.Log.(simenv.FailureNotifier); ok {
			f.OnFailure(n.fail)
		}
		return raftguard.Simulated(n.conf.SimEnv), nil
	}
	s, err := storage.Open(n.conf.DataDir, n.fail, raftguard.Logger(n.logger))
	if err != nil {
		return nil, err
	}
	if n.conf.Cluster == nil {
		return raftguard.SingleNode(s), nil
	}
	return &raftguard.Env{Storage: s}, nil
}

// awaitLeadership waits until this node leads for the first time.
func (n *Node) awaitLeadership(ctx context.Context) error {
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

// fail receives every failure of the log; only the first one counts.
func (n *Node) fail(err error) {
	n.failOnce.Do(func() {
		n.failed.Store(&err)
		if l := n.leadership.Load(); l != nil {
			l.leading.Store(false)
		}
		n.conf.OnFailure(err) // first: the failure may block everything else
		n.notifier.WakeAll()
	})
}

// exitProcess is the default of [Config.OnFailure].
func (n *Node) exitProcess(err error) {
	n.logger.Error("the coordinator cannot go on: the process ends, so that nothing is acknowledged that may be lost and another node can lead", "error", err)
	asynclog.Flush(n.logger)
	os.Exit(1)
}

// Close stops the coordinator: calls in flight are answered, workers of phase two finish their
// current call, and the log is closed. The node stays a member of its cluster.
func (n *Node) Close() error { return n.close() }

func (n *Node) shutdown() error {
	defer asynclog.Flush(n.logger)
	n.StepDown()
	n.mu.Lock()
	close(n.closing)
	n.mu.Unlock()
	n.cancelBase()
	n.notifier.Close()
	cancelIsolation := n.isolateAfterTimeout()
	n.done.Wait() // gives up the leadership first
	n.proposals.Close()
	n.readIndex.Close() // raft does not answer requests that arrive while it stops
	cancelIsolation()
	// Before raft: it does not answer requests of other nodes either while it stops, and it
	// waits for a node that is suspended in the middle of a snapshot until its connection ends.
	err := n.cluster.Close()
	if stopped := n.raft.Shutdown().Error(); stopped != nil {
		err = errors.Join(err, fmt.Errorf("stopping raft: %w", stopped))
	}
	return errors.Join(err, n.participants.Close(), n.env.Log.Close())
}

// setupFailed ends Open with an error: the cluster does not match the configuration.
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

// bootstrapState writes the cluster's configuration into the log before everything else, or
// checks that this node was given the same one, and registers embedded participants.
func (n *Node) bootstrapState() error {
	boot := n.bootstrap()
	if boot.Cluster == "" {
		boot = machine.Bootstrap{
			Cluster: newClusterID(), Interval: orElse(n.conf.Interval, DefaultInterval),
			Retention: orElse(n.conf.Retention, DefaultRetention), Retain: orElse(n.conf.Retain, 1_000_000),
		}
		res, err := n.proposals.Propose(context.Background(), boot)
		if err != nil {
			return fmt.Errorf("bootstrapping the cluster: %w", err)
		}
		if res.Code != machine.OK {
			return fmt.Errorf("bootstrapping the cluster: code %d", res.Code)
		}
	}
	if err := n.checkFixedSettings(boot); err != nil {
		if n.env.SingleNode {
			return err
		}
		n.logger.Warn("a setting of this node differs from the cluster's and is ignored", "error", err)
	}
	return n.registerEmbedded()
}

// checkFixedSettings compares the node's configuration with the settings that were fixed when
// the cluster was bootstrapped.
func (n *Node) checkFixedSettings(boot machine.Bootstrap) error {
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

// newClusterID makes the cluster id, which is part of the cluster's XIDs: 30 random bits keep
// two clusters on one database apart.
func newClusterID() string { return random.Letters(6) }

// onApply is called for each applied entry, in order.
func (n *Node) onApply(at raftfsm.Position, fx *machine.Effects, tick survival.Tick) {
	var next survival.Tick
	var pending, due bool
	var boot machine.Bootstrap
	n.fsm.View(func(m *machine.Machine) {
		next, pending = ticks.NextDue(m)
		due = m.Due()
		boot, _ = m.Bootstrap()
	})
	n.refreshAdmission()
	n.clock.Anchor(tick, boot.Interval, at, at.Term == n.term.Load())
	if n.conf.hooks.publishing != nil {
		n.conf.hooks.publishing()
	}
	n.notifier.Publish(fx.Changes)
	l := n.leadership.Load()
	if l == nil {
		return // not leading: the leader does the rest
	}
	if len(fx.SessionsOpened)+len(fx.SessionsClosed) > 0 {
		l.sessions.Add(fx.SessionsOpened)
		l.sessions.Drop(fx.SessionsClosed)
	}
	n.logApplied(at.Index, fx)
	if due {
		n.proposals.RequestTick()
	}
	l.ticks.Observe(next, pending)
	if len(fx.Pending) > 0 {
		l.recovery.Add(fx.Pending...)
	}
	if len(fx.DeferToClient) > 0 {
		n.deferToClients(l.recovery, fx.DeferToClient)
	}
}

// refreshAdmission reads from the state machine what admission depends on: the number of
// unfinished transactions, and the participants' quotas and optimizers.
func (n *Node) refreshAdmission() {
	var unfinished int64
	var registered []machine.Registration
	n.fsm.View(func(m *machine.Machine) {
		c := m.Counts()
		unfinished, registered = int64(c.Undecided+c.Completing), m.Participants()
	})
	n.unfinished.Store(unfinished)
	n.quotas.Observe(registered)
	n.optimizers.Observe(registered)
}

// onRestore is called when a snapshot has replaced the state.
func (n *Node) onRestore(tick survival.Tick) {
	n.refreshAdmission()
	n.clock.Anchor(tick, n.bootstrap().Interval, raftfsm.Position{}, false)
	n.notifier.Replaced()
}

func (n *Node) bootstrap() (b machine.Bootstrap) {
	n.fsm.View(func(m *machine.Machine) { b, _ = m.Bootstrap() })
	return b
}

func (n *Node) clusterID() string { return n.bootstrap().Cluster }

func (n *Node) interval() time.Duration { return n.bootstrap().Interval }

func (n *Node) registration(name string) (p admin.Participant, ok bool) {
	n.fsm.View(func(m *machine.Machine) { p, ok = m.Participant(name) })
	return p, ok
}

func (n *Node) tick() (t survival.Tick) {
	n.fsm.View(func(m *machine.Machine) { t = m.Tick() })
	return t
}
