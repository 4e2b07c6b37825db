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
	verb Verb
}

// The classes of work in a lane: verbs, and what a sweep found. While all have work,
// they share the lane's calls by their weights, so that no stream of commits keeps a
// rollback waiting for ever.
const (
	classCommits   = iota // commits, and prepares for which a client waits
	classRollbacks        // rollbacks and settlements
	classJobs             // what a sweep found
)

var weights = [...]int{classCommits: 8, classRollbacks: 3, classJobs: 1}

func (v Verb) class() int {
	if v == Commit || v == Prepare {
		return classCommits
	}
	return classRollbacks
}

// waiter is an item in a queue, and since when it could have begun, as far as that is up
// to itself; on recovery's scale.
type waiter struct {
	item
	since time.Duration
}

// lane is what waits for one participant. Guarded by Recovery.mu.
type lane struct {
	name    string
	queues  [classJobs]fifo[waiter]
	jobs    []*job
	turns   *adaptive.Turns // of the classes
	crew    crew
	running int           // calls that hold a worker
	parked  int           // branches that wait for their next try
	shut    bool          // nothing begins for another reason than the lack of a worker, but for probes
	opened  time.Duration // when that was over
	br      breaker
	fails   int           // calls that failed since the last success
	lastErr string        // of the last of them
	heard   time.Time     // the last answer, or lack of one, to a call or probe
	took    time.Duration // by the last probe, or the last sweep that could not look
	unfit   string        // why it failed the last probe; empty when it did not
	since   time.Time     // from when on it is as healthy as it is
	ill     bool          // not healthy since then
	down    bool          // as Config.Turned was told
	blind   bool          // the last sweep could not see what is prepared
	swept   string        // why the last sweep failed; empty when it did not
	tidied  string        // why the last tidying failed; empty when it did not
	dirty   bool          // in Recovery.dirty
	at      int           // in Recovery.active, plus one; zero: without work
	short   bool          // in Recovery.short
	called  bool          // a call was kept free for it; see shareLocked

	downSince time.Time
	turned    func(Turn)

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
	l.turnLocked()
}

// idle reports whether nothing is queued, running, or waiting to be tried again.
func (l *lane) idle() bool { return l.queued()+l.running+l.parked == 0 }

// laneLocked gives the lane of a participant; mu is held.
func (r *Recovery) laneLocked(name string) *lane {
	l := r.lanes[name]
	if l == nil {
		turns, err := adaptive.NewTurns(weights[:]...)
		if err != nil {
			panic(fmt.Errorf("recovery: turns of constant weights: %w", err))
		}
		l = &lane{
			name:     name,
			turns:    turns,
			br:       breaker{after: r.cfg.BreakerAfter, waits: r.probes},
			sweeping: make(chan struct{}, 1),
			turned:   r.newsLocked,
		}
		r.lanes[name] = l
	}
	return l
}

// touchLocked has the lane's pool told, by the next dispatch, what there is to do now;
// mu is held.
func (r *Recovery) touchLocked(l *lane) {
	if !l.dirty {
		l.dirty = true
		r.dirty = append(r.dirty, l)
	}
}

// shutLocked notes whether calls wait for something else than a worker; mu is held.
func (l *lane) shutLocked(shut bool, now time.Duration) {
	if l.shut && !shut {
		l.opened = now
	}
	l.shut = shut
}

// sinceLocked is since when a call could have begun that was queued at that time; mu is
// held. While its lane was shut it did not wait for a worker.
func (l *lane) sinceLocked(queued, now time.Duration) time.Duration {
	if l.shut {
		return now // it is the probe
	}
	return max(queued, l.opened)
}

// queueLocked puts an item at the end of its queue, that could begin since then; mu is
// held.
func (r *Recovery) queueLocked(l *lane, it item, since time.Duration) {
	l.queues[it.verb.class()].push(waiter{it, since})
	r.touchLocked(l)
}

// activeLocked keeps the list of the lanes with work; mu is held.
func (r *Recovery) activeLocked(l *lane) {
	switch work := l.queued() > 0; {
	case work && l.at == 0:
		r.active = append(r.active, l)
		l.at = len(r.active)
	case !work && l.at > 0:
		last := r.active[len(r.active)-1]
		r.active[l.at-1], last.at = last, l.at
		r.active[len(r.active)-1] = nil
		r.active = r.active[:len(r.active)-1]
		l.at = 0
	}
}

// dropLanesLocked forgets lanes of participants that are not registered any more
// and have nothing to do; mu is held.
func (r *Recovery) dropLanesLocked(registered map[string]bool) {
	for name, l := range r.lanes {
		switch {
		case registered[name] || !l.idle() || len(l.sweeping) > 0:
		case l.crew.pool != nil:
			r.restLocked(l)
		case !l.crew.leaving && !l.dirty:
			delete(r.lanes, name)
		}
	}
}
