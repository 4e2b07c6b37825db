package recovery

import (
	"slices"
	"time"
)

// item is one branch in a queue: what costs memory when much is undone. Branch
// zero stands, with verb zero, for the transaction's reports to the log, and with
// Settle for the end of its waiting.
type item struct {
	Key
	verb Verb
}

// The classes of work in a lane, in order of precedence: the verbs, then
// what a sweep found.
const (
	classJobs = int(Settle)
	classes   = classJobs + 1
)

func (v Verb) class() int { return int(v) - 1 }

// priorities of the classes at the pool.
var priorities = [classes]int{PriorityCommit, PriorityCommit, PriorityRollback, PriorityRollback, PriorityProbe}

// lane is what waits for one participant. Guarded by Recovery.mu.
type lane struct {
	name    string
	queues  [classJobs]fifo[item]
	jobs    []*job
	running int // calls that hold a worker
	parked  int // branches that wait for their next try
	br      breaker
	fails   int           // calls that failed since the last success
	lastErr string        // of the last of them
	heard   time.Time     // the last answer, or lack of one, to a call or probe
	took    time.Duration // by the last probe, or the last sweep that could not look
	unfit   string        // why it failed the last probe; empty when it did not
	since   time.Time     // from when on it is as healthy as it is
	ill     bool          // not healthy since then
	blind   bool          // the last sweep could not see what is prepared
	swept   string        // why the last sweep failed; empty when it did not
	tidied  string        // why the last tidying failed; empty when it did not
	active  bool          // in Recovery.active

	sweeping chan struct{} // held by the sweep that is under way
}

func (l *lane) has(class int) bool {
	if class == classJobs {
		return len(l.jobs) > 0
	}
	return l.queues[class].len() > 0
}

// queued is the number of branches that wait for a worker.
func (l *lane) queued() int {
	n := len(l.jobs)
	for i := range l.queues {
		n += l.queues[i].len()
	}
	return n
}

// healthy reports whether nothing is known against the participant.
func (l *lane) healthy() bool { return l.br.closed() && l.fails == 0 && !l.blind && l.unfit == "" }

// clearLocked forgets the failures of calls; mu is held.
func (l *lane) clearLocked() {
	l.br.success()
	l.fails, l.lastErr = 0, ""
}

// hearLocked notes that a call or probe has said how the participant does; mu is held.
func (l *lane) hearLocked() {
	l.heard = time.Now()
	l.judgeLocked()
}

// judgeLocked notes when the participant falls ill, and when it recovers; mu is held.
func (l *lane) judgeLocked() {
	if ill := !l.healthy(); !l.heard.IsZero() && (ill != l.ill || l.since.IsZero()) {
		l.ill, l.since = ill, time.Now()
	}
}

// idle reports whether nothing is queued, running, or waiting to be tried again.
func (l *lane) idle() bool { return l.queued()+l.running+l.parked == 0 }

// laneLocked gives the lane of a participant; mu is held.
func (r *Recovery) laneLocked(name string) *lane {
	l := r.lanes[name]
	if l == nil {
		l = &lane{
			name:     name,
			br:       breaker{after: r.cfg.BreakerAfter, waits: r.probes},
			sweeping: make(chan struct{}, 1),
		}
		r.lanes[name] = l
	}
	return l
}

// activateLocked makes the dispatcher look at the lane; mu is held.
func (r *Recovery) activateLocked(l *lane) {
	if !l.active {
		l.active = true
		r.active = append(r.active, l)
	}
}

// queueLocked puts an item at the end of its queue; mu is held.
func (r *Recovery) queueLocked(l *lane, it item) {
	l.queues[it.verb.class()].push(it)
	r.activateLocked(l)
}

// restLocked takes a lane without work off the dispatcher's list; mu is held.
func (r *Recovery) restLocked(l *lane) {
	if l.queued() > 0 {
		return
	}
	l.active = false
	if i := slices.Index(r.active, l); i >= 0 {
		r.active = slices.Delete(r.active, i, i+1)
	}
}

// dropLanesLocked forgets lanes of participants that are not registered any more
// and have nothing to do; mu is held.
func (r *Recovery) dropLanesLocked(registered map[string]bool) {
	for name, l := range r.lanes {
		if !registered[name] && l.idle() && len(l.sweeping) == 0 {
			delete(r.lanes, name)
		}
	}
}

// pickLocked chooses the lane and class whose turn it is: by precedence, in turns
// between the lanes. Every eighth time precedence is upside down, so that a
// stream of commits keeps no rollback waiting for ever; mu is held.
func (r *Recovery) pickLocked(now time.Duration) (l *lane, class int, ok bool) {
	n := len(r.active)
	for i := range classes {
		class = i
		if r.turn%8 == 7 {
			class = classes - 1 - i
		}
		for j := range n {
			at := (r.cursor + j) % n
			l = r.active[at]
			if l.has(class) && l.running < r.cfg.PerParticipant && l.br.ready(now) {
				r.cursor = at + 1
				return l, class, true
			}
		}
	}
	return nil, 0, false
}
