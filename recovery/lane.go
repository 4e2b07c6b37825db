package recovery

import (
	"fmt"
	"time"

	"github.com/txmgr/txmgr/adaptive"
	"github.com/txmgr/txmgr/recovery/breaker"
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
	name        string
	queues      [queueSweeps]queue.FIFO[queuedItem]
	sweepTasks  []*sweepTask
	roundRobin  *adaptive.WeightedRoundRobin // of the queues
	workerPool  workerPool
	running     int           // calls that hold a worker
	backingOff  int           // branches that wait for their next attempt
	blocked     bool          // only probes may begin, for another reason than a lack of workers
	unblockedAt time.Duration // when blocked ended
	br          breaker.Breaker
	fails       int           // calls that failed since the last success
	lastErr     string        // error of the last of them
	lastContact time.Time     // the last answer, failed or not, to a call or probe
	took        time.Duration // by the last probe, or the last sweep whose scan failed
	probeErr    string        // why the last probe failed; empty when it did not
	since       time.Time     // when unhealthy last changed
	unhealthy   bool          // not healthy since then
	down        bool          // as last passed to Config.OnHealthChange
	scanFailed  bool          // the last sweep could not list the prepared branches
	sweepErr    string        // why the last sweep failed; empty when it did not
	pruneErr    string        // why the last pruning failed; empty when it did not
	dirty       bool          // in Recovery.dirty
	activeIndex int           // in Recovery.active, plus one; zero: without work
	starved     bool          // in Recovery.starved
	reserved    bool          // a call is kept free for it; see allowedLocked

	downSince      time.Time
	onHealthChange func(HealthChange)

	sweeping chan struct{} // held by the sweep that is under way
}

func (l *lane) has(class int) bool {
	if class == queueSweeps {
		return len(l.sweepTasks) > 0
	}
	return l.queues[class].Len() > 0
}

// queued is the number of branches that wait for a worker.
func (l *lane) queued() int {
	n := len(l.sweepTasks)
	for i := range l.queues {
		n += l.queues[i].Len()
	}
	return n
}

// healthy reports whether no failure of the participant is known.
func (l *lane) healthy() bool {
	return l.br.Closed() && l.fails == 0 && !l.scanFailed && l.probeErr == ""
}

// clearFailuresLocked forgets the failures of calls; mu is held.
func (l *lane) clearFailuresLocked() {
	l.br.Success()
	l.fails, l.lastErr = 0, ""
}

// noteContactLocked records that a call or probe has reported on the participant; mu is held.
func (l *lane) noteContactLocked() {
	l.lastContact = time.Now()
	l.updateHealthLocked()
}

// updateHealthLocked records when the participant becomes unhealthy, or healthy; mu is held.
func (l *lane) updateHealthLocked() {
	if unhealthy := !l.healthy(); !l.lastContact.IsZero() && (unhealthy != l.unhealthy || l.since.IsZero()) {
		l.unhealthy, l.since = unhealthy, time.Now()
	}
	l.updateDownLocked()
}

// idle reports whether nothing is queued, running, or backing off.
func (l *lane) idle() bool { return l.queued()+l.running+l.backingOff == 0 }

// laneLocked returns the lane of a participant, made if there is none; mu is held.
func (r *Recovery) laneLocked(name string) *lane {
	l := r.lanes[name]
	if l == nil {
		turns, err := adaptive.NewWeightedRoundRobin(weights[:]...)
		if err != nil {
			panic(fmt.Errorf("recovery: turns of constant weights: %w", err))
		}
		l = &lane{
			name:           name,
			roundRobin:     turns,
			br:             breaker.Breaker{Threshold: r.cfg.BreakerThreshold, Backoff: r.backoffs.probes},
			sweeping:       make(chan struct{}, 1),
			onHealthChange: r.queueHealthChangeLocked,
		}
		r.lanes[name] = l
	}
	return l
}

// markDirtyLocked makes the next dispatch tell the lane's pool how many calls are ready;
// mu is held.
func (r *Recovery) markDirtyLocked(l *lane) {
	if !l.dirty {
		l.dirty = true
		r.dirty = append(r.dirty, l)
	}
}

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
	l.queues[queueOf(it.action)].Push(queuedItem{it, since})
	r.markDirtyLocked(l)
}

// updateActiveLocked keeps the list of the lanes with work; mu is held.
func (r *Recovery) updateActiveLocked(l *lane) {
	switch work := l.queued() > 0; {
	case work && l.activeIndex == 0:
		r.active = append(r.active, l)
		l.activeIndex = len(r.active)
	case !work && l.activeIndex > 0:
		last := r.active[len(r.active)-1]
		r.active[l.activeIndex-1], last.activeIndex = last, l.activeIndex
		r.active[len(r.active)-1] = nil
		r.active = r.active[:len(r.active)-1]
		l.activeIndex = 0
	}
}

// dropLanesLocked drops the lanes of participants that are not registered any more
// and have nothing to do; mu is held.
func (r *Recovery) dropLanesLocked(registered map[string]bool) {
	for name, l := range r.lanes {
		switch {
		case registered[name] || !l.idle() || len(l.sweeping) > 0:
		case l.workerPool.pool != nil:
			r.closePoolLocked(l)
		case !l.workerPool.closing && !l.dirty:
			delete(r.lanes, name)
		}
	}
}
