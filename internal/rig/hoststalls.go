package rig

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"
)

// span is an interval of time.
type span struct{ from, to time.Time }

// HostStalls records when the machine itself stalled, so that a test that bounds a time can
// subtract those stalls:
//
//	var machine rig.HostStalls
//	go machine.Watch(ctx, dir)
//	...
//	took := now.Sub(start) - machine.During(start, now)
//
// Two controls use nothing of the product: a timer that records how late it fires, and a file in
// dir that is synced four times a second. A timer's lateness above 50 ms, and the time of a sync
// above 250 ms, counts. A process that hangs delays neither of them, so its stall is not excused.
type HostStalls struct {
	mu      sync.Mutex // guards all below
	stalls  []span
	syncing time.Time // the start of the sync in progress; zero: none
	worst   time.Duration
}

const (
	timerStep, timerLate = 20 * time.Millisecond, 50 * time.Millisecond
	syncStep, syncLate   = 250 * time.Millisecond, 250 * time.Millisecond
)

// Watch runs both controls until ctx ends. The error is that of the file.
func (c *HostStalls) Watch(ctx context.Context, dir string) error {
	file, err := os.Create(filepath.Join(dir, "control"))
	if err != nil {
		return err
	}
	defer file.Close()
	var running sync.WaitGroup
	defer running.Wait()
	running.Go(func() { c.timer(ctx) })
	block := make([]byte, 4096)
	for Sleep(ctx, syncStep) {
		start := time.Now()
		c.mu.Lock()
		c.syncing = start
		c.mu.Unlock()
		_, err := file.WriteAt(block, 0)
		if err == nil {
			err = file.Sync()
		}
		c.mu.Lock()
		c.syncing = time.Time{}
		c.lateLocked(start.Add(syncLate), time.Now())
		c.mu.Unlock()
		if err != nil {
			return err
		}
	}
	return nil
}

func (c *HostStalls) timer(ctx context.Context) {
	for due := time.Now().Add(timerStep); Sleep(ctx, time.Until(due)); due = time.Now().Add(timerStep) {
		if now := time.Now(); now.Sub(due) > timerLate {
			c.Note(due, now)
		}
	}
}

// Note records that the machine stalled in an interval.
func (c *HostStalls) Note(from, to time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.lateLocked(from, to)
}

// Worst is the longest delay of a control.
func (c *HostStalls) Worst() time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.worst
}

func (c *HostStalls) lateLocked(due, now time.Time) {
	if now.After(due) {
		c.stalls = append(c.stalls, span{due, now})
		c.worst = max(c.worst, now.Sub(due))
	}
}

// During is the time for which the machine stalled within an interval. Stalls that both controls
// recorded count once.
func (c *HostStalls) During(from, to time.Time) (sum time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	var in []span
	note := func(s span) {
		s.from, s.to = latest(s.from, from), earliest(s.to, to)
		if s.from.Before(s.to) {
			in = append(in, s)
		}
	}
	for i := len(c.stalls) - 1; i >= 0 && c.stalls[i].to.After(from.Add(-time.Minute)); i-- {
		note(c.stalls[i]) // two goroutines append, so they are nearly in order
	}
	if !c.syncing.IsZero() {
		note(span{c.syncing.Add(syncLate), to})
	}
	slices.SortFunc(in, func(a, b span) int { return a.from.Compare(b.from) })
	at := from
	for _, s := range in {
		if s.to.After(at) {
			sum += s.to.Sub(latest(s.from, at))
			at = s.to
		}
	}
	return sum
}

func latest(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

func earliest(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
}
