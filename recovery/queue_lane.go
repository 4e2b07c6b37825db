package recovery

import (
	"time"

	"github.com/txmgr/txmgr/adaptive"
	"github.com/txmgr/txmgr/recovery/plan"
	"github.com/txmgr/txmgr/recovery/queue"
)

// item is one branch in a queue: it determines the memory of pending work. Branch zero
// stands, with action zero, for the transaction's reports to the log, and with
// ResolveOutcome for the end of its waiting.
type item struct {
	plan.Key
	action plan.Action
}

// The queues of a lane. While all have work, they share the lane's calls by their
// weights, so that no stream of commits keeps a rollback waiting for ever.
const (
	queueCommits   = iota // commits, and prepares for which a client waits
	queueRollbacks        // rollbacks and outcomes to resolve
	queueSweeps           // branches that a sweep found
)

var weights = [...]int{queueCommits: 8, queueRollbacks: 3, queueSweeps: 1}

// queueOf is the queue of an action.
func queueOf(v plan.Action) int {
	if v == plan.Commit || v == plan.Prepare {
		return queueCommits
	}
	return queueRollbacks
}

// queuedItem is an item in a queue, and since when it was ready, apart from blocks of its
// lane; on recovery's scale.
type queuedItem struct {
	item
	since time.Duration
}

// lane is the work for one participant. Guarded by Recovery.mu.
type lane struct {
	name       string
	waiting    laneQueue
	workerPool workerPool
	health     healthStatus

	running     int           // calls that hold a worker
	backingOff  int           // branches that wait for their next attempt
	blocked     bool          // only probes may begin, for another reason than a lack of workers
	unblockedAt time.Duration // when blocked ended

	dirty       bool // in lanes.dirty
	activeIndex int  // in lanes.active, plus one; zero: without work
	starved     bool // in callLimit.starved
	reserved    bool // a call is kept free for it; see callLimit

	sweeping chan struct{} // held by the sweep that is under way
}

// laneQueue is what waits for a worker of one participant. Guarded by Recovery.mu.
type laneQueue struct {
	queues     [queueSweeps]queue.FIFO[queuedItem]
	sweepTasks []*sweepTask
	roundRobin *adaptive.WeightedRoundRobin // of the queues, and the sweep tasks
}

func (q *laneQueue) has(class int) bool {
	if class == queueSweeps {
		return len(q.sweepTasks) > 0
	}
	return q.queues[class].Len() > 0
}

// queued is the number of branches that wait for a worker.
func (l *lane) queued() int {
	n := len(l.waiting.sweepTasks)
	for i := range l.waiting.queues {
		n += l.waiting.queues[i].Len()
	}
	return n
}

// idle reports whether nothing is queued, running, or backing off.
func (l *lane) idle() bool { return l.queued()+l.running+l.backingOff == 0 }

// setBlockedLocked records whether calls wait for something else than a worker; mu is held.
func (l *lane) setBlockedLocked(blocked bool, now time.Duration) {
	if l.blocked && !blocked {
		l.unblockedAt = now
	}
	l.blocked = blocked
}

// readySinceLocked is since when a call was ready that was queued at that time; mu is
// held. While its lane was blocked it did not wait for a worker.
func (l *lane) readySinceLocked(queued, now time.Duration) time.Duration {
	if l.blocked {
		return now // it is the probe
	}
	return max(queued, l.unblockedAt)
}

// queueLocked puts an item, ready since then, at the end of its queue; mu is held.
func (r *Recovery) queueLocked(l *lane, it item, since time.Duration) {
	l.waiting.queues[queueOf(it.action)].Push(queuedItem{it, since})
	r.lanes.markDirtyLocked(l)
}
