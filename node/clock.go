package node

import (
	"math"
	"sync"
	"time"

	"github.com/txmgr/txmgr/raftfsm"
	"github.com/txmgr/txmgr/timeout/survival"
)

// clock counts invocations of the timeout thread on the process's monotonic
// clock. It goes on from the last entry of the log: from its tick, and from the instant
// at which it arrived at this replica. The wall clock plays no part.
//
// A leader counts by itself; what it wrote says no more than it knows. Every other replica
// takes over what an entry says, also when that is less than it has counted since the entry
// before: a leader whose machine was suspended, or that was restarted, has lost that time,
// and the deadlines that come with the entry are ticks of its count. An entry arrives after
// its leader has stamped it, so this replica's count is behind that leader's from then on,
// and a deadline of any leader is not over too early by it. Two oscillators differ, but never
// for longer than since the last entry.
//
// It can be late: by the replication delay and the part of the interval that an entry does not
// tell, by the time for which the machine was suspended, and by the time the cluster was down.
type clock struct {
	read func() time.Time // the monotonic clock; nil means time.Now

	mu       sync.Mutex
	interval time.Duration    // guarded by mu: 0 until the log has said it
	tick     survival.Tick    // guarded by mu: a tick of the log
	at       time.Time        // guarded by mu: when its entry arrived here, or later
	last     raftfsm.Position // guarded by mu: of the entry that arrived last
	arrived  time.Time        // guarded by mu: when that was
}

// recordArrival notes that an entry with a tick has arrived. It is applied when it is known to be
// committed: what a leader wrote just before it died when there is another one, an election later.
func (c *clock) recordArrival(at raftfsm.Position) {
	now := c.readMonotonic()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.last, c.arrived = at, now
}

// anchor notes the tick of the log after the entry at a position, which is being applied now; the
// position is zero for a snapshot. own says that this node wrote the entry, in the latest term in which
// it took over: it carries what the clock counted itself, also when it is applied after the end of that,
// and when raft makes it take over twice in one term.
func (c *clock) anchor(tick survival.Tick, interval time.Duration, at raftfsm.Position, own bool) {
	now := c.readMonotonic()
	c.mu.Lock()
	defer c.mu.Unlock()
	counted, _ := c.countLocked(now)
	c.interval = interval
	if own && tick <= counted && !c.at.IsZero() {
		return
	}
	c.tick, c.at = tick, now
	if at == c.last && at.Index > 0 && !own {
		c.at = c.arrived
	}
}

// readMonotonic reads the monotonic clock.
func (c *clock) readMonotonic() time.Time {
	if c.read != nil {
		return c.read()
	}
	return time.Now()
}

// now gives the tick and the time that remains until the next one.
func (c *clock) now() (tick survival.Tick, untilNext time.Duration) {
	now := c.readMonotonic()
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.countLocked(now)
}

func (c *clock) countLocked(now time.Time) (tick survival.Tick, untilNext time.Duration) {
	if c.interval == 0 {
		return c.tick, 0
	}
	passed := max(now.Sub(c.at), 0)
	n := passed / c.interval
	return c.tick + survival.Tick(n), (n+1)*c.interval - passed
}

// every is the interval; 0 until the log has said it. Unlike the machine it can
// be asked while an entry is being applied.
func (c *clock) every() time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.interval
}

// elapsed is the time that has passed since the tick began; zero when it has not.
func (c *clock) elapsed(tick survival.Tick) time.Duration {
	now := c.readMonotonic()
	c.mu.Lock()
	defer c.mu.Unlock()
	passed := now.Sub(c.at)
	if tick >= c.tick {
		passed -= time.Duration(tick-c.tick) * c.interval
	} else {
		passed += time.Duration(c.tick-tick) * c.interval
	}
	return max(passed, 0)
}

// remaining is the time from now until the tick begins; zero when it has begun.
func (c *clock) remaining(tick survival.Tick) time.Duration {
	now, untilNext := c.now()
	c.mu.Lock()
	interval := c.interval
	c.mu.Unlock()
	if tick <= now {
		return 0
	}
	whole := uint64(tick - now - 1)
	if whole >= uint64((math.MaxInt64-untilNext)/max(interval, 1)) {
		return math.MaxInt64
	}
	return untilNext + time.Duration(whole)*interval
}

// lastTickWithin gives the last tick that begins no later than d from now.
func (c *clock) lastTickWithin(d time.Duration) survival.Tick {
	tick, untilNext := c.now()
	interval := c.every()
	if d < untilNext || interval == 0 {
		return tick
	}
	return tick + 1 + survival.Tick((d-untilNext)/interval)
}
