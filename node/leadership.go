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
	ctx  context.Context // ends with it
	stop context.CancelFunc
	done sync.WaitGroup
}

const (
	// takeOverAgain is the pause between two tries to take over.
	takeOverAgain = 100 * time.Millisecond
	// takeOverAtMost is how long raft may lead here without taking entries. Then this
	// process is in the way of the others.
	takeOverAtMost = 30 * time.Second
)

// lead takes over, and tries again as long as raft leads: there are moments at which
// raft refuses entries though it does. Nil when it does not lead any more.
func (n *Node) lead() *leadership {
	for started := time.Now(); ; {
		var p *pulse
		err := n.takeOver()
		if err == nil {
			p, err = newPulse(n, n.term.Load())
		}
		if err == nil {
			return n.start(p)
		}
		switch {
		case n.raft.State() != raft.Leader:
			return nil
		case n.storage.alone:
			n.setupFailed(err)
			return nil
		}
		n.logger.Warn("cannot take over", "error", err)
		if time.Since(started) > takeOverAtMost {
			n.fail(fmt.Errorf("this node leads and has taken no entry for %v: %w", takeOverAtMost, err))
			return nil
		}
		timer := time.NewTimer(takeOverAgain)
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

// takeOver applies everything before this term and opens the batcher.
func (n *Node) takeOver() error {
	term := n.raft.CurrentTerm()
	if err := n.raft.Barrier(0).Error(); err != nil {
		return err
	}
	// The barrier was this node's own, so it led then; and all the time since before,
	// unless the term is another.
	if n.raft.CurrentTerm() != term {
		return fmt.Errorf("%w: elected anew", txn.ErrUnavailable)
	}
	n.term.Store(term)
	n.batcher.lead(term)
	err := n.found()
	if err != nil {
		n.batcher.lead(0)
	}
	return err
}

// start begins what only a leader does: the timeout thread runs, sessions are listened to,
// and recovery gets all undone work.
func (n *Node) start(p *pulse) *leadership {
	l := &leadership{node: n}
	l.ctx, l.stop = context.WithCancel(context.Background())
	boot := n.bootstrap()
	conf := n.conf.Recovery
	conf.Cluster, conf.Swept, conf.Turned, conf.Called = boot.Cluster, n.logSwept, n.logTurn, n.calls.record
	conf.Chosen = n.optimizers.of
	r := recovery.New(conf, log{n})
	r.Start()
	n.recovery.Store(r)
	n.pulse.Store(p) // before the sessions are looked through: none is missed
	l.done.Go(func() { p.run(l.ctx) })
	l.done.Go(func() { n.keeper.run(l.ctx.Done()) })
	if n.port != nil {
		l.done.Go(func() { n.attend(l.ctx) })
	}
	n.leading.Store(true)
	// Beside the watch over leadership: of a million it takes a while.
	l.done.Go(func() { n.feedUndone(l.ctx, r) })
	select {
	case <-n.ready:
	default:
		close(n.ready)
	}
	n.logLed()
	return l
}

// end lays leadership down. It is nil-safe. Whatever participants are still asked is
// left to end by itself: one that hangs must not keep this node from leading again.
func (l *leadership) end() {
	if l == nil {
		return
	}
	n := l.node
	n.leading.Store(false)
	n.logLost()
	n.pulse.Store(nil)
	n.hub.waits.rouse()
	n.batcher.lead(0)
	l.stop()
	n.done.Go(n.recovery.Swap(nil).Stop)
	l.done.Wait()
}

// feedUndone hands recovery everything that is not finished: all that a new
// leader needs to take over. It goes in steps, so that the log goes on.
func (n *Node) feedUndone(ctx context.Context, r *recovery.Recovery) {
	const step = 10_000
	for from := uint32(0); ctx.Err() == nil; {
		var ids []txn.ID
		n.fsm.View(func(m *machine.Machine) { ids, from = m.Undone(from, step) })
		r.Add(ids...)
		if from == 0 {
			return
		}
	}
}
