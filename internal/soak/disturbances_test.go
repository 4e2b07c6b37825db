package soak

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/txmgr/txmgr/internal/rig"
)

// disturbance is a time in which nodes fail or elect.
type disturbance struct {
	name          string
	from, to      time.Time // to is zero while it lasts
	needsElection bool      // it makes an election necessary
}

// disturbances records when nodes were disturbed: by a fault, until the cluster is healthy again,
// and by elections of any cause. After both there is a time in which clients may still get errors.
type disturbances struct {
	mu         sync.Mutex // guards all below
	all        []*disturbance
	term       uint64
	elections  int // those without a fault
	lastAgreed time.Time
}

// disturbanceGrace is how long after a disturbance clients may still get errors: calls that were
// forwarded to a node that has ended have no answer for as long.
const disturbanceGrace = 2 * time.Second

// begin records the begin of a disturbance; end records its end.
func (w *disturbances) begin(name string, needsElection bool) (end func()) {
	d := &disturbance{name: name, from: time.Now(), needsElection: needsElection}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.all = append(w.all, d)
	return func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		d.to = time.Now()
	}
}

// disturbed reports whether nodes were disturbed in an interval.
func (w *disturbances) disturbed(from, to time.Time) bool { return w.overlaps(from, to, false) }

// electing reports whether an election was necessary in an interval.
func (w *disturbances) electing(from, to time.Time) bool { return w.overlaps(from, to, true) }

func (w *disturbances) overlaps(from, to time.Time, needsElection bool) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, d := range w.all {
		if d.from.Before(to) && (d.to.IsZero() || d.to.Add(disturbanceGrace).After(from)) && (d.needsElection || !needsElection) {
			return true
		}
	}
	return false
}

// watch looks for elections until ctx ends. One without a fault began, at the worst, when the nodes
// last agreed.
func (b *testEnv) watch(ctx context.Context) {
	w := &b.disturbances
	w.lastAgreed = time.Now()
	for rig.Sleep(ctx, 200*time.Millisecond) {
		all, err := b.statuses(ctx)
		now, leader := time.Now(), false
		var term uint64
		for _, s := range all {
			term = max(term, s.Term)
			leader = leader || s.Leader
		}
		if term > w.term && w.term > 0 && !w.disturbed(w.lastAgreed, now) {
			b.events.Note("an election that no fault explains: term %d after %d; the machine stood still for %v of %v", term, w.term,
				b.hostStalls.During(w.lastAgreed, now).Round(time.Millisecond), now.Sub(w.lastAgreed).Round(time.Millisecond))
			w.mu.Lock()
			w.elections++
			w.all = append(w.all, &disturbance{name: fmt.Sprintf("election of term %d", term), from: w.lastAgreed, to: now})
			w.mu.Unlock()
		}
		w.term = max(w.term, term)
		if leader && err == nil {
			w.lastAgreed = now
		}
	}
}
