package recovery

import (
	"fmt"
	"time"

	"github.com/txmgr/txmgr/adaptive"
	"github.com/txmgr/txmgr/recovery/breaker"
)

// laneSet is the lanes, and which of them the dispatcher has to see. Guarded by Recovery.mu.
type laneSet struct {
	byName map[string]*lane // by participant
	active []*lane          // those with something queued
	dirty  []*lane          // those whose ready calls may have changed

	pools       int           // lanes that have one
	idleCheckAt time.Duration // when to check for idle pools
}

// laneLocked returns the lane of a participant, made if there is none; mu is held.
func (r *Recovery) laneLocked(name string) *lane {
	l := r.lanes.byName[name]
	if l == nil {
		turns, err := adaptive.NewWeightedRoundRobin(weights[:]...)
		if err != nil {
			panic(fmt.Errorf("recovery: turns of constant weights: %w", err))
		}
		l = &lane{
			name:    name,
			waiting: laneQueue{roundRobin: turns},
			health: healthStatus{
				participant: name,
				br:          breaker.Breaker{Threshold: r.cfg.BreakerThreshold, Backoff: r.backoffs.probes},
				onChange:    r.queueHealthChangeLocked,
			},
			sweeping: make(chan struct{}, 1),
		}
		r.lanes.byName[name] = l
	}
	return l
}

// markDirtyLocked makes the next dispatch tell the lane's pool how many calls are ready;
// mu is held.
func (s *laneSet) markDirtyLocked(l *lane) {
	if !l.dirty {
		l.dirty = true
		s.dirty = append(s.dirty, l)
	}
}

// updateActiveLocked keeps the list of the lanes with work; mu is held.
func (s *laneSet) updateActiveLocked(l *lane) {
	switch work := l.queued() > 0; {
	case work && l.activeIndex == 0:
		s.active = append(s.active, l)
		l.activeIndex = len(s.active)
	case !work && l.activeIndex > 0:
		last := s.active[len(s.active)-1]
		s.active[l.activeIndex-1], last.activeIndex = last, l.activeIndex
		s.active[len(s.active)-1] = nil
		s.active = s.active[:len(s.active)-1]
		l.activeIndex = 0
	}
}

// dropLanesLocked drops the lanes of participants that are not registered any more
// and have nothing to do; mu is held.
func (r *Recovery) dropLanesLocked(registered map[string]bool) {
	for name, l := range r.lanes.byName {
		switch {
		case registered[name] || !l.idle() || len(l.sweeping) > 0:
		case l.workerPool.pool != nil:
			r.closePoolLocked(l)
		case !l.workerPool.closing && !l.dirty:
			delete(r.lanes.byName, name)
		}
	}
}
