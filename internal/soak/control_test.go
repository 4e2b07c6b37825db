package soak

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/txmgr/txmgr/internal/rig"
)

// span is an interval of time.
type span struct{ from, to time.Time }

// control notes when the machine itself stood still: see the package's documentation.
type control struct {
	mu      sync.Mutex // guards all below
	stood   []span
	syncing time.Time // since when a sync is under way; zero: none is
	worst   time.Duration
}

const (
	timerStep, timerLate = 20 * time.Millisecond, 50 * time.Millisecond
	syncStep, syncLate   = 250 * time.Millisecond, 250 * time.Millisecond
)

// run lasts as long as ctx.
func (c *control) run(ctx context.Context, dir string) error {
	file, err := os.Create(filepath.Join(dir, "control"))
	if err != nil {
		return err
	}
	defer file.Close()
	var running sync.WaitGroup
	defer running.Wait()
	running.Go(func() { c.timer(ctx) })
	block := make([]byte, 4096)
	for rig.Pause(ctx, syncStep) {
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

func (c *control) timer(ctx context.Context) {
	for due := time.Now().Add(timerStep); rig.Pause(ctx, time.Until(due)); due = time.Now().Add(timerStep) {
		if now := time.Now(); now.Sub(due) > timerLate {
			c.mu.Lock()
			c.lateLocked(due, now)
			c.mu.Unlock()
		}
	}
}

func (c *control) lateLocked(due, now time.Time) {
	if now.After(due) {
		c.stood = append(c.stood, span{due, now})
		c.worst = max(c.worst, now.Sub(due))
	}
}

// during is for how long of an interval the machine stood still.
func (c *control) during(from, to time.Time) (sum time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	var in []span
	note := func(s span) {
		s.from, s.to = latest(s.from, from), earliest(s.to, to)
		if s.from.Before(s.to) {
			in = append(in, s)
		}
	}
	for i := len(c.stood) - 1; i >= 0 && c.stood[i].to.After(from.Add(-time.Minute)); i-- {
		note(c.stood[i]) // two goroutines append, so they are nearly in order
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
