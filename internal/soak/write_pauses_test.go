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
	// electionTime is how much longer it may take when a fault has made an election necessary.
	// docs/deploy.md says that one takes two or three seconds.
	electionTime = 3 * time.Second
)

// writePauses measures how long no node has acknowledged a write.
type writePauses struct {
	mu                  sync.Mutex // guards all below
	last                time.Time  // when one was acknowledged
	longest             writePause // the longest without a fault
	longestWithElection writePause // the longest with an election
	stalled             string     // the stall that was found; empty: none
}

// writePause is a time without writes.
type writePause struct {
	at          time.Time
	took        time.Duration // without the stalls of the machine
	hostStalled time.Duration // that
}

func (p writePause) String() string {
	if p.took == 0 {
		return "none"
	}
	return fmt.Sprintf("%v at %s (and %v in which the machine stood still)", p.took.Round(time.Millisecond), p.at.Format(time.TimeOnly), p.hostStalled.Round(time.Millisecond))
}

// writeAcked records that a write was acknowledged.
func (b *testEnv) writeAcked() { b.measurePause(true) }

// measurePause measures the time since the last acknowledgement, and reports whether it is a stall.
func (b *testEnv) measurePause(acknowledged bool) bool {
	p, now := &b.writes, time.Now()
	p.mu.Lock()
	defer p.mu.Unlock()
	raw := now.Sub(p.last)
	if raw > 200*time.Millisecond { // shorter ones are not of interest
		stood := b.hostStalls.During(p.last, now)
		worst, limit, while := &p.longest, stallLimit, "without an election"
		if b.disturbances.electing(p.last, now) {
			worst, limit, while = &p.longestWithElection, stallLimit+electionTime, "in which a fault made an election necessary"
		}
		if took := raw - stood; took > worst.took {
			*worst = writePause{p.last, took, stood}
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

// probeWrites sends one node writes, all the time, until ctx ends.
func (b *testEnv) probeWrites(ctx context.Context, m *client.Client) {
	for rig.Sleep(ctx, 50*time.Millisecond) {
		trying, cancel := context.WithTimeout(ctx, time.Second)
		begun, err := m.Begin(trying, txn.Options{Name: "prompt", Timeout: 2 * time.Second})
		if err == nil {
			b.writeAcked()
			if _, err = m.Rollback(trying, begun.ID, "it was only to see"); err == nil {
				b.writeAcked()
			}
		}
		cancel()
	}
}

// stopOnStall ends the load, by stop, when there is a stall.
func (b *testEnv) stopOnStall(ctx context.Context, stop context.CancelFunc) {
	for rig.Sleep(ctx, 100*time.Millisecond) {
		if b.measurePause(false) {
			b.t.Errorf("STALL: %s", b.writes.stalled)
			for _, n := range b.nodes {
				n.Dump() // its goroutines are written to its log
			}
			stop()
			return
		}
	}
}
