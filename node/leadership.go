package node

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/raft"

	"github.com/txmgr/txmgr/node/recoverylog"
	"github.com/txmgr/txmgr/node/sessions"
	"github.com/txmgr/txmgr/node/ticks"
	"github.com/txmgr/txmgr/recovery"
	"github.com/txmgr/txmgr/txn"
	"github.com/txmgr/txmgr/txn/machine"
)

// monitorLeadership starts and stops what runs only on a leader.
func (n *Node) monitorLeadership() {
	var term *leadership
	defer func() { term.revoke() }()
	for {
		select {
		case leads := <-n.raft.LeaderCh():
			term.revoke()
			if term = nil; leads {
				term = n.establishLeadership()
			}
		case <-n.life.closing():
			return
		}
	}
}

// terms are the terms in which this node leads.
type terms struct {
	present atomic.Pointer[leadership] // nil unless this node leads
	latest  atomic.Uint64              // in which it took over; entries of that term may be applied after its end
}

// leadership is what belongs to one term in which this node leads.
type leadership struct {
	node     *Node
	leading  atomic.Bool // it takes calls: false before all of it runs, and as soon as it ends
	recovery *recovery.Recovery
	log      *recoverylog.Log // of recovery
	sessions *sessions.Expirer
	ticks    *ticks.Scheduler
	ctx      context.Context // ends with it
	stop     context.CancelFunc
	done     sync.WaitGroup
}

// leading reports whether this node leads, and takes calls. Its term may have ended without its
// knowledge: see [Node.isLeader].
func (n *Node) leading() bool {
	l := n.terms.present.Load()
	return l != nil && l.leading.Load()
}

// recovery returns the recovery of the present term; nil unless this node leads.
func (n *Node) recovery() *recovery.Recovery {
	if l := n.terms.present.Load(); l != nil {
		return l.recovery
	}
	return nil
}

// sessionExpirer returns that of the present term; nil unless this node leads.
func (n *Node) sessionExpirer() *sessions.Expirer {
	if l := n.terms.present.Load(); l != nil {
		return l.sessions
	}
	return nil
}

const (
	// takeOverRetryPause is the pause between two tries to take over.
	takeOverRetryPause = 100 * time.Millisecond
	// takeOverTimeout is how long raft may lead here without accepting entries. After it the
	// node fails, because it keeps the other nodes from leading.
	takeOverTimeout = 30 * time.Second
)

// establishLeadership takes over, and retries as long as raft leads: at some moments raft rejects
// entries although it leads. It returns nil when raft does not lead any more.
func (n *Node) establishLeadership() *leadership {
	for started := time.Now(); ; {
		var p *sessions.Expirer
		err := n.takeOver()
		if err == nil {
			p, err = sessions.NewExpirer(n.proposals, n.fsm.View, n.terms.latest.Load(), n.conf.Logger)
		}
		if err == nil {
			return n.startLeadership(p)
		}
		switch {
		case n.raft.State() != raft.Leader:
			return nil
		case n.env.SingleNode:
			n.setupFailed(err)
			return nil
		}
		n.conf.Logger.Warn("cannot take over", "error", err)
		if time.Since(started) > takeOverTimeout {
			n.fail(fmt.Errorf("this node leads and has taken no entry for %v: %w", takeOverTimeout, err))
			return nil
		}
		timer := time.NewTimer(takeOverRetryPause)
		select {
		case <-timer.C:
		case <-n.life.closing():
			timer.Stop()
			return nil
		}
		if n.raft.State() != raft.Leader {
			return nil
		}
	}
}

// takeOver applies everything before this term and opens the proposal queue.
func (n *Node) takeOver() error {
	if n.conf.hooks.takingOver != nil {
		n.conf.hooks.takingOver()
	}
	term := n.raft.CurrentTerm()
	if err := n.raft.Barrier(0).Error(); err != nil {
		return err
	}
	// The barrier was this node's own entry, so the node led then; and it has led all the time
	// since the term was read, unless the term has changed.
	if n.raft.CurrentTerm() != term {
		return fmt.Errorf("%w: elected anew", txn.ErrUnavailable)
	}
	n.terms.latest.Store(term)
	n.proposals.SetTerm(term)
	err := n.bootstrapState()
	if err != nil {
		n.proposals.SetTerm(0)
	}
	return err
}

// startLeadership starts what runs only on a leader: the timeout thread, the expiry of client
// sessions, autopilot, and recovery, which receives all preparing and completing transactions.
func (n *Node) startLeadership(p *sessions.Expirer) *leadership {
	log := n.recoveryLog()
	l := &leadership{
		node: n, recovery: n.newRecovery(log), log: log, sessions: p,
		ticks: ticks.NewScheduler(n.clock, n.proposals, n.fsm.View, n.conf.Checkpoint),
	}
	l.ctx, l.stop = context.WithCancel(context.Background())
	l.recovery.Start()
	// Before the open sessions and the pending transactions are read, so that none is missed: from
	// now on the entries that are applied bring new ones.
	n.terms.present.Store(l)
	l.done.Go(func() { l.sessions.Run(l.ctx) })
	l.done.Go(func() { l.ticks.Run(l.ctx.Done()) })
	if n.conf.Cluster != nil {
		l.done.Go(func() { n.cluster.RunAutopilot(l.ctx) })
	}
	l.leading.Store(true) // after all that a call may need
	// Concurrently: with a million transactions it takes a while, and monitorLeadership must
	// not wait for it.
	l.done.Go(func() { n.queuePending(l.ctx, l.recovery) })
	n.life.setReady()
	n.logLeadershipGained()
	return l
}

// revoke gives up the leadership. It is nil-safe. It does not wait for calls to participants that
// are in flight: one that hangs must not keep this node from leading again.
func (l *leadership) revoke() {
	if l == nil {
		return
	}
	n := l.node
	l.leading.Store(false) // first: no call may be taken by what ends below, and waiters that are woken see it
	n.logLeadershipLost()
	n.notifier.WakeAll()
	n.proposals.SetTerm(0)
	l.stop()
	// Before recovery stops: entries that are applied give it no more work. A session that is renewed
	// in between is reported as renewed only if this node leads again by then, and that term counts
	// from its own beginning.
	n.terms.present.Store(nil)
	n.life.done.Go(l.recovery.Stop)
	l.done.Wait()
}

// recoveryLog is what recovery reads of this node, and writes through it.
func (n *Node) recoveryLog() *recoverylog.Log {
	return &recoverylog.Log{
		View: n.fsm.View, Clock: n.clock, Queue: n.proposals, RequireReadable: n.requireReadable,
		Term: n.raft.CurrentTerm, Registry: n.participants, Logger: n.conf.Logger,
	}
}

// newRecovery makes the recovery of one term.
func (n *Node) newRecovery(log recovery.Log) *recovery.Recovery {
	conf := n.conf.Recovery
	conf.Cluster, conf.OnScanResult, conf.OnHealthChange, conf.OnCall = n.clusterID(), n.logSwept, n.logParticipantHealth, n.measured.callTimes.Record
	conf.OptimizerFor = n.admission.optimizers.Choice
	return recovery.New(conf, log)
}

// queuePending hands recovery all transactions that are preparing or completing, which is all
// that a new leader needs. It works in steps, so that the log is not blocked.
func (n *Node) queuePending(ctx context.Context, r *recovery.Recovery) {
	const step = 10_000
	for from := uint32(0); ctx.Err() == nil; {
		var ids []txn.ID
		n.fsm.View(func(m *machine.Machine) { ids, from = m.Pending(from, step) })
		r.Add(ids...)
		if from == 0 {
			return
		}
	}
}
