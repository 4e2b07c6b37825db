package recovery

import (
	"fmt"
	"time"

	"github.com/txmgr/txmgr/adaptive"
)

// item is one branch in a queue: what costs memory when much is undone. Branch
// zero stands, with verb zero, for the transaction's reports to the log, and with
// Settle for the end of its waiting.
type item struct {
	Key
	action Action
}

// The classes of work in a lane: verbs, and what a sweep found. While all have work,
// they share the lane's calls by their weights, so that no stream of commits keeps a
// rollback waiting for ever.
const (
	queueCommits   = iota // commits, and prepares for which a client waits
	queueRollbacks        // rollbacks and settlements
	queueSweeps           // what a sweep found
)

var weights = [...]int{queueCommits: 8, queueRollbacks: 3, queueSweeps: 1}

func (v Action) queue() int {
	if v == Commit || v == Prepare {
		return queueCommits
	}
	return queueRollbacks
}

// queuedItem is an item in a queue, and since when it could have begun, as far as that is up
// to itself; on recovery's scale.
type queuedItem struct {
	item
	since time.Duration
}

// lane is what waits for one participant. Guarded by Recovery.mu.
type lane struct {
	name        string
	queues      [queueSweeps]fifo[queuedItem]
	sweepTasks  []*sweepTask
	roundRobin  *adaptive.WeightedRoundRobin // of the classes
	workerPool  workerPool
	running     int           // calls that hold a worker
	backingOff  int           // branches that wait for their next try
	blocked     bool          // nothing begins for another reason than the lack of a worker, but for probes
	unblockedAt time.Duration // when that was over
	br          breaker
	fails       int           // calls that failed since the last success
	lastErr     string        // of the last of them
	lastContact time.Time     // the last answer, or lack of one, to a call or probe
	took        time.Duration // by the last probe, or the last sweep that could not look
	probeErr    string        // why it failed the last probe; empty when it did not
	since       time.Time     // from when on it is as healthy as it is
	unhealthy   bool          // not healthy since then
	down        bool          // as Config.Turned was told
	scanFailed  bool          // the last sweep could not see what is prepared
	sweepErr    string        // why the last sweep failed; empty when it did not
	pruneErr    string        // why the last tidying failed; empty when it did not
	dirty       bool          // in Recovery.dirty
	activeIndex int           // in Recovery.active, plus one; zero: without work
	starved     bool          // in Recovery.short
	reserved    bool          // a call was kept free for it; see shareLocked

	downSince      time.Time
	onHealthChange func(HealthChange)

	sweeping chan struct{} // held by the sweep that is under way
}

func (l *lane) has(class int) bool {
	if class == queueSweeps {
		return len(l.sweepTasks) > 0
	}
	return l.queues[class].len() > 0
}

// queued is the number of branches that wait for a worker.
func (l *lane) queued() int {
	n := len(l.sweepTasks)
	for i := range l.queues {
		n += l.queues[i].len()
	}
	return n
}

// healthy reports whether nothing is known against the participant.
func (l *lane) healthy() bool {
	return l.br.closed() && l.fails == 0 && !l.scanFailed && l.probeErr == ""
}

// clearFailuresLocked forgets the failures of calls; mu is held.
func (l *lane) clearFailuresLocked() {
	l.br.success()
	l.fails, l.lastErr = 0, ""
}

// noteContactLocked notes that a call or probe has said how the participant does; mu is held.
func (l *lane) noteContactLocked() {
	l.lastContact = time.Now()
	l.updateHealthLocked()
}

// updateHealthLocked notes when the participant falls ill, and when it recovers; mu is held.
func (l *lane) updateHealthLocked() {
	if unhealthy := !l.healthy(); !l.lastContact.IsZero() && (unhealthy != l.unhealthy || l.since.IsZero()) {
		l.unhealthy, l.since = unhealthy, time.Now()
	}
	l.updateDownLocked()
}

// idle reports whether nothing is queued, running, or waiting to be tried again.
func (l *lane) idle() bool { return l.queued()+l.running+l.backingOff == 0 }

// laneLocked gives the lane of a participant; mu is held.
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
			br:             breaker{threshold: r.cfg.BreakerThreshold, backoff: r.probes},
			sweeping:       make(chan struct{}, 1),
			onHealthChange: r.queueHealthChangeLocked,
		}
		r.lanes[name] = l
	}
	return l
}

// markDirtyLocked has the lane's pool told, by the next dispatch, what there is to do now;
// mu is held.
func (r *Recovery) markDirtyLocked(l *lane) {
	if !l.dirty {
		l.dirty = true
		r.dirty = append(r.dirty, l)
	}
}

// setBlockedLocked notes whether calls wait for something else than a worker; mu is held.
func (l *lane) setBlockedLocked(blocked bool, now time.Duration) {
	if l.blocked && !blocked {
		l.unblockedAt = now
	}
	l.blocked = blocked
}

// readySinceLocked is since when a call could have begun that was queued at that time; mu is
// held. While its lane was shut it did not wait for a worker.
func (l *lane) readySinceLocked(queued, now time.Duration) time.Duration {
	if l.blocked {
		return now // it is the probe
	}
	return max(queued, l.unblockedAt)
}

// queueLocked puts an item at the end of its queue, that could begin since then; mu is
// held.
func (r *Recovery) queueLocked(l *lane, it item, since time.Duration) {
	l.queues[it.action.queue()].push(queuedItem{it, since})
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

// dropLanesLocked forgets lanes of participants that are not registered any more
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
