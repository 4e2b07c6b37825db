package node

import (
	"time"

	"github.com/hashicorp/raft"
)

const (
	// watchEvery is the time between two looks of the watchdog.
	watchEvery = 250 * time.Millisecond
	// stallLooks is for how many looks in a row nothing may move although something waits. Looks are counted instead of time,
	// so that a process that was halted, or a machine that was suspended, does not take the pause for a stall.
	stallLooks = int(5 * time.Second / watchEvery)
	// endLooks is after how many looks without progress a node that cannot lead any more ends its process.
	endLooks = int(30 * time.Second / watchEvery)
	// answerWithin bounds what raft may take to answer a question of the watchdog.
	answerWithin = 2 * time.Second
	// dumpWithin bounds what the disk may take to store the stacks before the process ends.
	dumpWithin = time.Second
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
	node    *Node
	checks  []*progress
	locked  *progress     // the one of the checks after which nothing helps
	own     int           // looks in a row at which a new start was due, and the fault this node's
	written chan struct{} // closed when the stacks of the latest stall are on the disk
}

// progress is something that has to move while it is waited for.
type progress struct {
	what string
	// look gives a number that changes with each step, and whether a next step is waited for.
	look func() (mark uint64, waited bool)

	mark  uint64
	looks int // in a row at which the mark was the same and a step was waited for
}

func (p *progress) observe() {
	mark, waited := p.look()
	if !waited || mark != p.mark {
		p.mark, p.looks = mark, 0
		return
	}
	p.looks++
}

func newWatchdog(n *Node) *watchdog {
	locked := &progress{what: "the state is locked", look: func() (uint64, bool) { return n.fsm.Steps(), !n.fsm.Readable() }}
	w := &watchdog{
		node: n, written: make(chan struct{}), locked: locked,
		checks: []*progress{
			locked, // first: of what stands still for the same time the first is named
			{what: "an entry is being applied", look: func() (uint64, bool) {
				steps := n.fsm.Steps()
				return steps, steps%2 == 1
			}},
			// raft counts what it hands over at once as applied when all of it is, which at a start is the whole log.
			{what: "committed entries are not applied", look: func() (uint64, bool) {
				applied := n.raft.AppliedIndex()
				return applied + n.fsm.Steps(), n.raft.CommitIndex() > applied
			}},
			{what: "calls wait for the log", look: func() (uint64, bool) {
				return n.batcher.landings.Load(), n.batcher.pending.Load() > 0
			}},
			// Until then every call is refused, so that none waits. A long log that is applied first is progress.
			{what: "this node leads and has not taken over", look: func() (uint64, bool) {
				return n.raft.CurrentTerm() + n.raft.AppliedIndex() + n.fsm.Steps(), n.raft.State() == raft.Leader && !n.leads()
			}},
		},
	}
	close(w.written)
	return w
}

// run looks until stop is closed.
func (w *watchdog) run(stop <-chan struct{}) {
	ticker := time.NewTicker(watchEvery)
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C:
		case <-stop:
			return
		}
		if b := w.node.conf.Bed; b != nil && b.Awake != nil {
			b.Awake()
		}
		w.act(w.look())
	}
}

// look gives what has not moved for longest, and for how many looks.
func (w *watchdog) look() (what string, looks int) {
	restoring := w.node.fsm.Restoring()
	for _, p := range w.checks {
		// A snapshot that is being read may be long. It needs no lock.
		if p.observe(); restoring && p != w.locked {
			p.looks = 0
		}
		if p.looks > looks {
			what, looks = p.what, p.looks
		}
	}
	return what, looks
}
