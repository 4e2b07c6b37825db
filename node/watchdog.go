package node

import (
	"time"

	"github.com/hashicorp/raft"
)

const (
	// watchdogInterval is the time between two looks of the watchdog.
	watchdogInterval = 250 * time.Millisecond
	// stallPolls is for how many looks in a row nothing may move although something waits. Looks are counted instead of time,
	// so that a process that was halted, or a machine that was suspended, does not take the pause for a stall.
	stallPolls = int(5 * time.Second / watchdogInterval)
	// exitPolls is after how many looks without progress a node that cannot lead any more ends its process.
	exitPolls = int(30 * time.Second / watchdogInterval)
	// raftAnswerTimeout bounds what raft may take to answer a question of the watchdog.
	raftAnswerTimeout = 2 * time.Second
	// dumpTimeout bounds what the disk may take to store the stacks before the process ends.
	dumpTimeout = time.Second
)

// watchdog notices that this node makes no progress. raft's heartbeats go on then, so the other nodes do not elect a leader,
// and every caller waits until its own time is over.
//
// It compares what is asked of the node with what moves: the entry that is being applied, the entries that are committed
// and not applied, the calls that wait for the log, and leadership, which raft has given to this node and which it takes
// over. The calls are the probe: an idle node is asked nothing, so that it
// writes nothing. When nothing has moved for five seconds the node refuses calls and is not ready, and a leader hands
// leadership over. The process ends at once if the state has been locked all that time, or if raft does not answer, since no
// other node could lead then; and after thirty seconds in any case in which the fault is this node's, since only a new start
// helps. Entries that are stored here and wait for other nodes are none.
//
// A participant that does not answer is no stall: recovery waits for it, and the log goes on. The watchdog itself waits for
// nothing that may hang with the node: not for the log of messages, nor for a lock that is held while something else is
// waited for; for the disk and for raft no longer than a bound.
type watchdog struct {
	node     *Node
	checks   []*progressCheck
	locked   *progressCheck // the one of the checks after which nothing helps
	own      int            // looks in a row at which a new start was due, and the fault this node's
	dumpDone chan struct{}  // closed when the stacks of the latest stall are on the disk
}

// progressCheck is something that has to move while it is waited for.
type progressCheck struct {
	what string
	// check gives a number that changes with each step, and whether a next step is waited for.
	check func() (mark uint64, waited bool)

	mark  uint64
	polls int // in a row at which the mark was the same and a step was waited for
}

func (p *progressCheck) observe() {
	mark, waited := p.check()
	if !waited || mark != p.mark {
		p.mark, p.polls = mark, 0
		return
	}
	p.polls++
}

func newWatchdog(n *Node) *watchdog {
	locked := &progressCheck{what: "the state is locked", check: func() (uint64, bool) { return n.fsm.Steps(), !n.fsm.Readable() }}
	w := &watchdog{
		node: n, dumpDone: make(chan struct{}), locked: locked,
		checks: []*progressCheck{
			locked, // first: of what stands still for the same time the first is named
			{what: "an entry is being applied", check: func() (uint64, bool) {
				steps := n.fsm.Steps()
				return steps, steps%2 == 1
			}},
			// raft counts what it hands over at once as applied when all of it is, which at a start is the whole log.
			{what: "committed entries are not applied", check: func() (uint64, bool) {
				applied := n.raft.AppliedIndex()
				return applied + n.fsm.Steps(), n.raft.CommitIndex() > applied
			}},
			{what: "calls wait for the log", check: func() (uint64, bool) {
				return n.proposals.completed.Load(), n.proposals.pending.Load() > 0
			}},
			// Until then every call is refused, so that none waits. A long log that is applied first is progress.
			{what: "this node leads and has not taken over", check: func() (uint64, bool) {
				return n.raft.CurrentTerm() + n.raft.AppliedIndex() + n.fsm.Steps(), n.raft.State() == raft.Leader && !n.isLeader()
			}},
		},
	}
	close(w.dumpDone)
	return w
}

// run looks until stop is closed.
func (w *watchdog) run(stop <-chan struct{}) {
	ticker := time.NewTicker(watchdogInterval)
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C:
		case <-stop:
			return
		}
		if b := w.node.conf.SimEnv; b != nil && b.BlockWhilePaused != nil {
			b.BlockWhilePaused()
		}
		w.act(w.check())
	}
}

// check gives what has not moved for longest, and for how many looks.
func (w *watchdog) check() (what string, polls int) {
	restoring := w.node.fsm.Restoring()
	for _, p := range w.checks {
		// A snapshot that is being read may be long. It needs no lock.
		if p.observe(); restoring && p != w.locked {
			p.polls = 0
		}
		if p.polls > polls {
			what, polls = p.what, p.polls
		}
	}
	return what, polls
}
