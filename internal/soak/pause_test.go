package soak

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/txmgr/txmgr/client"
	"github.com/txmgr/txmgr/internal/rig"
	"github.com/txmgr/txmgr/txn"
)

const (
	// stallLimit is how long no write may be acknowledged.
	stallLimit = 5 * time.Second
	// electionTime is how much longer it may take when a fault has made an election
	// necessary. docs/operations.md says that one takes two or three seconds.
	electionTime = 3 * time.Second
)

// pauses measures how long no node has acknowledged a write.
type pauses struct {
	mu      sync.Mutex // guards all below
	last    time.Time  // when one was acknowledged
	calm    pause      // the longest without a fault
	elected pause      // the longest with an election
	stalled string     // what was found; empty: nothing
}

// pause is a time without writes.
type pause struct {
	at    time.Time
	took  time.Duration // without what the machine is to blame for
	stood time.Duration // that
}

func (p pause) String() string {
	if p.took == 0 {
		return "none"
	}
	return fmt.Sprintf("%v at %s (and %v in which the machine stood still)", p.took.Round(time.Millisecond), p.at.Format(time.TimeOnly), p.stood.Round(time.Millisecond))
}

// served notes that a write was acknowledged.
func (b *bed) served() { b.look(true) }

// look measures the time since the last acknowledgement, and reports whether it is a stall.
func (b *bed) look(acknowledged bool) bool {
	p, now := &b.writes, time.Now()
	p.mu.Lock()
	defer p.mu.Unlock()
	raw := now.Sub(p.last)
	if raw > 200*time.Millisecond { // what is shorter is not of interest
		stood := b.machine.During(p.last, now)
		worst, limit, while := &p.calm, stallLimit, "without an election"
		if b.weather.electing(p.last, now) {
			worst, limit, while = &p.elected, stallLimit+electionTime, "in which a fault made an election necessary"
		}
		if took := raw - stood; took > worst.took {
			*worst = pause{p.last, took, stood}
		}
		if raw-stood > limit && p.stalled == "" {
			p.stalled = fmt.Sprintf("no node has acknowledged a write for %v since %s, a time %s; the limit is %v; the machine stood still for %v of it",
				raw.Round(time.Millisecond), p.last.Format("15:04:05.000"), while, limit, stood.Round(time.Millisecond))
		}
	}
	if acknowledged {
		p.last = now
	}
	return p.stalled != ""
}

// prompt asks one node for writes, all the time, until ctx ends.
func (b *bed) prompt(ctx context.Context, m *client.Client) {
	for rig.Pause(ctx, 50*time.Millisecond) {
		trying, cancel := context.WithTimeout(ctx, time.Second)
		begun, err := m.Begin(trying, txn.Options{Name: "prompt", Timeout: 2 * time.Second})
		if err == nil {
			b.served()
			if _, err = m.Rollback(trying, begun.ID, "it was only to see"); err == nil {
				b.served()
			}
		}
		cancel()
	}
}

// guard ends the load, by stop, when there is a stall.
func (b *bed) guard(ctx context.Context, stop context.CancelFunc) {
	for rig.Pause(ctx, 100*time.Millisecond) {
		if b.look(false) {
			b.t.Errorf("STALL: %s", b.writes.stalled)
			for _, n := range b.nodes {
				n.Dump() // its goroutines are in its log
			}
			stop()
			return
		}
	}
}
