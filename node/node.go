package node

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/hashicorp/raft"

	"github.com/txmgr/txmgr/internal/asynclog"
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
	env          *raftguard.Env
	raft         *raft.Raft
	readIndex    *readindex.ReadIndex
	cluster      *membership.Cluster
	snapshots    *snapshots.Scheduler
	fsm          *raftfsm.FSM
	clock        *ticks.Clock
	proposals    *proposal.Queue
	notifier     *notify.Notifier
	participants *participants.Registry
	admission    admission
	measured     measurements
	terms        terms
	life         *lifecycle
}

var _ txn.Namer = (*Node)(nil)

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
	n := &Node{conf: conf, life: newLifecycle(), measured: newMeasurements(), clock: ticks.NewClock(conf.monotonic)}
	if conf.SimEnv == nil { // in the simulation the logger never blocks, and the lines of all nodes stay in order
		n.conf.Logger = asynclog.Wrap(conf.Logger)
	}
	if conf.OnFailure == nil {
		n.conf.OnFailure = n.exitProcess
	}
	n.life.close = sync.OnceValue(n.shutdown)
	if n.notifier, err = notify.New(n.life.closing()); err != nil {
		n.life.end()
		return nil, err
	}
	n.participants = participants.NewRegistry(conf.Drivers, conf.Participants, n.clusterID, n.registration)
	n.fsm = raftfsm.New(raftfsm.Config{OnApply: n.onApply, OnRestore: n.onRestore, OnFailure: n.fail})
	if err := n.openEnv(); err != nil {
		n.life.end()
		n.notifier.Close()
		return nil, err
	}
	n.admission.quotas = participants.NewQuotas(n.fsm.View)
	n.env.OnAppend = n.onAppend
	if n.snapshots, err = snapshots.New(n.env.Log, n.env.Snapshots, conf.SnapshotBytes, n.conf.Logger); err != nil {
		n.life.end()
		n.notifier.Close()
		return nil, errors.Join(fmt.Errorf("measuring the log: %w", err), n.cluster.Close(), n.env.Log.Close())
	}
	acks := new(readindex.AckTracker)
	n.env.Transport = raftguard.Transport(n.env.Transport, n.snapshots.RepeatedTo(), acks)
	if n.raft, err = raftguard.Start(n.env, n.fsm, conf.trailingLogs, n.conf.Logger); err != nil {
		n.life.end()
		n.notifier.Close()
		return nil, errors.Join(err, n.cluster.Close(), n.env.Log.Close())
	}
	n.snapshots.SetRaft(n.raft)
	n.readIndex = readindex.New(func() error { return acks.VerifyLeader(n.raft, n.env.ID, n.terms.latest.Load()) })
	n.proposals = proposal.New(n.raft, n.clock, conf.wall)
	n.cluster.Start(n.raft, n.proposals)
	n.life.done.Go(func() { n.snapshots.BreakLoops(n.life.closing(), n.proposals.RequestTick) })
	n.life.done.Go(n.monitorLeadership)
	n.life.done.Go(func() { n.snapshots.Run(n.life.closing()) })
	n.life.done.Go(func() { newWatchdog(n).run(n.life.closing()) })
	if n.conf.Cluster != nil {
		n.life.done.Go(n.cluster.Run)
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
	s, err := storage.Open(n.conf.DataDir, n.conf.SnapshotBytes, n.fail, raftguard.Logger(n.conf.Logger))
	if err != nil {
		return nil, err
	}
	if n.conf.Cluster == nil {
		return raftguard.SingleNode(s), nil
	}
	return &raftguard.Env{Storage: s}, nil
}

// bootstrapState writes the cluster's configuration into the log before everything else, or
// checks that this node was given the same one, and registers embedded participants.
func (n *Node) bootstrapState() error {
	boot := n.bootstrap()
	if boot.Cluster == "" {
		boot = machine.Bootstrap{
			Cluster: newClusterID(), Interval: cmp.Or(n.conf.Interval, DefaultInterval),
			Retention: cmp.Or(n.conf.Retention, DefaultRetention), Retain: cmp.Or(n.conf.Retain, 1_000_000),
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
		n.conf.Logger.Warn("a setting of this node differs from the cluster's and is ignored", "error", err)
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
	n.clock.Anchor(tick, boot.Interval, at, at.Term == n.terms.latest.Load())
	if n.conf.hooks.publishing != nil {
		n.conf.hooks.publishing()
	}
	n.notifier.Publish(fx.Changes)
	l := n.terms.present.Load()
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
		l.log.DeferToClients(l.recovery, fx.DeferToClient)
	}
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

// clusterID returns the cluster's id; empty before the cluster is bootstrapped. It rarely reads the
// state, since that waits while an entry is applied.
func (n *Node) clusterID() string {
	if id := n.admission.cluster.Load(); id != nil {
		return *id
	}
	id := n.bootstrap().Cluster
	if id != "" {
		n.admission.cluster.Store(&id)
	}
	return id
}

func (n *Node) interval() time.Duration { return n.bootstrap().Interval }

func (n *Node) registration(name string) (p admin.Participant, ok bool) {
	n.fsm.View(func(m *machine.Machine) { p, ok = m.Participant(name) })
	return p, ok
}

func (n *Node) tick() (t survival.Tick) {
	n.fsm.View(func(m *machine.Machine) { t = m.Tick() })
	return t
}
