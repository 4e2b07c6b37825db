package node

import (
	"time"

	"github.com/hashicorp/raft"
)

const (
	// watchdogInterval is the time between two polls of the watchdog.
	watchdogInterval = 250 * time.Millisecond
	// stallPolls is the number of consecutive polls without progress, although something waits,
	// after which the node is stalled. Polls are counted instead of time, so that the pause of a
	// suspended process or machine is not taken for a stall.
	stallPolls = int(5 * time.Second / watchdogInterval)
	// exitPolls is the number of polls without progress after which a node that cannot lead any
	// more ends its process.
	exitPolls = int(30 * time.Second / watchdogInterval)
	// raftAnswerTimeout bounds raft's answer to a request of the watchdog.
	raftAnswerTimeout = 2 * time.Second
	// dumpTimeout bounds the write of the stacks to disk before the process ends.
	dumpTimeout = time.Second
)

// watchdog detects that this node makes no progress. raft's heartbeats continue then, so the other
// nodes do not elect a leader, and every caller waits until its own timeout.
//
// It compares the work that waits with the work that progresses: the entry that is being applied,
// the entries that are committed and not applied, the calls that wait for the log, and leadership
// that raft has given to this node and that it has not taken over. The calls are the probe: without
// calls an idle node need not write anything. After five seconds without progress the node refuses
// calls and is not ready, and a leader transfers leadership. The process ends at once if the state
// was locked all that time, or if raft does not answer, since no other node could lead then; and
// after thirty seconds whenever the fault is this node's, since only a restart helps. Entries that
// are stored here and wait for other nodes are not this node's fault.
//
// A participant that does not answer is no stall: recovery waits for it, and the log goes on. The
// watchdog itself waits for nothing that may hang with the node: neither for the logger, nor for a
// lock that is held while something else is waited for; for the disk and for raft only for a
// bounded time.
type watchdog struct {
	node     *Node
	checks   []*progressCheck
	locked   *progressCheck // the one of the checks after which only a restart helps
	own      int            // consecutive polls at which a restart was due, and the fault was this node's
	dumpDone chan struct{}  // closed when the stacks of the latest stall are on disk
}

// progressCheck is work that has to progress while something waits for it.
type progressCheck struct {
	what string
	// check returns a number that changes with each step, and whether a further step is waited for.
	check func() (mark uint64, waited bool)

	mark  uint64
	polls int // consecutive polls at which the mark was the same and a step was waited for
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
			locked, // first: of stalls of the same length the first is named
			{what: "an entry is being applied", check: func() (uint64, bool) {
				steps := n.fsm.Steps()
				return steps, steps%2 == 1
			}},
			// raft counts entries that it passes on together as applied when all of them are; at a
			// start that is the whole log.
			{what: "committed entries are not applied", check: func() (uint64, bool) {
				applied := n.raft.AppliedIndex()
				return applied + n.fsm.Steps(), n.raft.CommitIndex() > applied
			}},
			{what: "calls wait for the log", check: n.proposals.Progress},
			// Until then every call is refused, so that none waits. Applying a long log first is
			// progress.
			{what: "this node leads and has not taken over", check: func() (uint64, bool) {
				return n.raft.CurrentTerm() + n.raft.AppliedIndex() + n.fsm.Steps(), n.raft.State() == raft.Leader && !n.isLeader()
			}},
		},
	}
	close(w.dumpDone)
	return w
}

// run polls until stop is closed.
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

// check returns the check without progress for longest, and for how many polls.
func (w *watchdog) check() (what string, polls int) {
	restoring := w.node.fsm.Restoring()
	for _, p := range w.checks {
		// A snapshot that is being read may be large. Reading needs no lock.
		if p.observe(); restoring && p != w.locked {
			p.polls = 0
		}
		if p.polls > polls {
			what, polls = p.what, p.polls
		}
	}
	return what, polls
}
