package node

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/hashicorp/raft"

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
		case <-n.closing:
			return
		}
	}
}

// leadership is what runs while this node leads.
type leadership struct {
	node *Node
	ctx  context.Context // ends with it
	stop context.CancelFunc
	done sync.WaitGroup
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
		var p *sessionExpirer
		err := n.takeOver()
		if err == nil {
			p, err = newSessionExpirer(n, n.term.Load())
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
		n.logger.Warn("cannot take over", "error", err)
		if time.Since(started) > takeOverTimeout {
			n.fail(fmt.Errorf("this node leads and has taken no entry for %v: %w", takeOverTimeout, err))
			return nil
		}
		timer := time.NewTimer(takeOverRetryPause)
		select {
		case <-timer.C:
		case <-n.closing:
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
	n.term.Store(term)
	n.proposals.SetTerm(term)
	err := n.bootstrapState()
	if err != nil {
		n.proposals.SetTerm(0)
	}
	return err
}

// startLeadership starts what runs only on a leader: the timeout thread, the expiry of client
// sessions, autopilot, and recovery, which receives all preparing and completing transactions.
func (n *Node) startLeadership(p *sessionExpirer) *leadership {
	l := &leadership{node: n}
	l.ctx, l.stop = context.WithCancel(context.Background())
	boot := n.bootstrap()
	conf := n.conf.Recovery
	conf.Cluster, conf.OnScanResult, conf.OnHealthChange, conf.OnCall = boot.Cluster, n.logSwept, n.logParticipantHealth, n.callTimes.record
	conf.OptimizerFor = n.optimizers.Choice
	r := recovery.New(conf, recoveryLog{n})
	r.Start()
	n.recovery.Store(r)
	n.sessionExpirer.Store(p) // before the open sessions are loaded, so that none is missed
	l.done.Go(func() { p.run(l.ctx) })
	l.done.Go(func() { n.tickScheduler.Run(l.ctx.Done()) })
	if n.conf.Cluster != nil {
		l.done.Go(func() { n.cluster.RunAutopilot(l.ctx) })
	}
	n.leading.Store(true)
	// Concurrently: with a million transactions it takes a while, and monitorLeadership must
	// not wait for it.
	l.done.Go(func() { n.queuePending(l.ctx, r) })
	select {
	case <-n.ready:
	default:
		close(n.ready)
	}
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
	n.leading.Store(false)
	n.logLeadershipLost()
	n.sessionExpirer.Store(nil)
	n.notifier.WakeAll()
	n.proposals.SetTerm(0)
	l.stop()
	n.done.Go(n.recovery.Swap(nil).Stop)
	l.done.Wait()
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
