package survivalpeers

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/txmgr/txmgr/timeout/survival"
)

// Interval is the length of a tick for contenders that need a duration.
const Interval = 100 * time.Millisecond

// Timers is a contender. H is what it needs to cancel an entry.
type Timers[H any] interface {
	// Add adds ids[n], which ends at ends[n], and stores its handle in handles[n], for every n.
	Add(ids []uint64, ends []survival.Tick, handles []H)
	// Cancel cancels every entry and returns how many were still pending.
	Cancel(handles []H) int
}

// Virtual is a contender that takes the time from the caller.
type Virtual[H any] interface {
	Timers[H]
	// Expire advances to the tick and takes up to len(buf) entries that are due.
	Expire(to survival.Tick, buf []uint64) int
}

// Handle is what the owner of a transaction keeps for its entry in a survival table.
type Handle struct {
	ID  uint64
	Ref survival.Ref
}

// UnlockedSurvival is package survival without a lock.
type UnlockedSurvival struct{ table *survival.Table }

// NewUnlockedSurvival returns an empty table at tick 0.
func NewUnlockedSurvival() *UnlockedSurvival { return &UnlockedSurvival{survival.NewTable(0)} }

// Add implements [Timers].
func (s *UnlockedSurvival) Add(ids []uint64, ends []survival.Tick, handles []Handle) {
	for n, id := range ids {
		handles[n] = Handle{id, s.table.Add(id, ends[n])}
	}
}

// Cancel implements [Timers].
func (s *UnlockedSurvival) Cancel(handles []Handle) int {
	cancelled := 0
	for _, h := range handles {
		if s.table.Cancel(h.ID, h.Ref) {
			cancelled++
		}
	}
	return cancelled
}

// Expire implements [Virtual].
func (s *UnlockedSurvival) Expire(to survival.Tick, buf []uint64) int {
	s.table.Advance(to)
	return s.table.Expire(buf)
}

// LockedSurvival is package survival behind a mutex.
type LockedSurvival struct {
	mu    sync.Mutex
	table *survival.Table // guarded by mu
}

// NewLockedSurvival returns an empty table at tick 0.
func NewLockedSurvival() *LockedSurvival { return &LockedSurvival{table: survival.NewTable(0)} }

// Add implements [Timers].
func (s *LockedSurvival) Add(ids []uint64, ends []survival.Tick, handles []Handle) {
	for n, id := range ids {
		s.mu.Lock()
		ref := s.table.Add(id, ends[n])
		s.mu.Unlock()
		handles[n] = Handle{id, ref}
	}
}

// Cancel implements [Timers].
func (s *LockedSurvival) Cancel(handles []Handle) int {
	cancelled := 0
	for _, h := range handles {
		s.mu.Lock()
		ok := s.table.Cancel(h.ID, h.Ref)
		s.mu.Unlock()
		if ok {
			cancelled++
		}
	}
	return cancelled
}

// Expire implements [Virtual].
func (s *LockedSurvival) Expire(to survival.Tick, buf []uint64) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.table.Advance(to)
	return s.table.Expire(buf)
}

// AfterFunc is a runtime timer for each entry.
type AfterFunc struct {
	// Fired counts the timers that have ended, Sum adds their ids.
	Fired, Sum atomic.Uint64
	// Unit is the length of a tick. Defaults to [Interval].
	Unit time.Duration
}

// Add implements [Timers].
func (a *AfterFunc) Add(ids []uint64, ends []survival.Tick, handles []*time.Timer) {
	unit := a.Unit
	if unit == 0 {
		unit = Interval
	}
	for n, id := range ids {
		handles[n] = time.AfterFunc(time.Duration(ends[n])*unit, func() {
			a.Sum.Add(id)
			a.Fired.Add(1)
		})
	}
}

// Cancel implements [Timers].
func (a *AfterFunc) Cancel(handles []*time.Timer) int {
	cancelled := 0
	for _, h := range handles {
		if h.Stop() {
			cancelled++
		}
	}
	return cancelled
}
