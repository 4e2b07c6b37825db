package ticks

import (
	"math"
	"sync"
	"time"

	"github.com/txmgr/txmgr/raftfsm"
	"github.com/txmgr/txmgr/timeout/survival"
)

// Clock counts invocations of the timeout thread on the process's monotonic clock. It continues
// from the last entry of the log: from the entry's tick, and from the instant at which the entry
// arrived at this node. The wall clock is not used.
//
// A leader counts by itself: its own entries tell it nothing new. Every other node adopts the
// tick of an entry, even when that is less than the node has counted since the entry before: a
// leader whose machine was suspended, or that was restarted, has lost that time, and the
// deadlines that come with the entry are ticks of the leader's count. An entry arrives after its
// leader has stamped it, so from then on this node's count is behind that leader's, and no
// deadline of any leader passes too early by it. Two oscillators differ, but only over the time
// since the last entry.
//
// The clock can be late: by the replication delay and the part of the interval that an entry
// does not carry, by the time for which the machine was suspended (docs/decisions/0029), and by
// the time for which the cluster was down.
type Clock struct {
	read func() time.Time // the monotonic clock; nil means time.Now

	mu       sync.Mutex
	interval time.Duration    // guarded by mu: 0 until it is known from the log
	tick     survival.Tick    // guarded by mu: a tick of the log
	at       time.Time        // guarded by mu: when its entry arrived here, or later
	last     raftfsm.Position // guarded by mu: position of the entry that arrived last
	arrived  time.Time        // guarded by mu: when that entry arrived
}

// NewClock makes a clock that reads the monotonic clock by a function; nil means [time.Now].
func NewClock(read func() time.Time) *Clock { return &Clock{read: read} }

// RecordArrival records that an entry with a tick has arrived. The entry is applied only once it
// is known to be committed: one that a leader wrote just before it failed, when there is another
// leader, an election later.
func (c *Clock) RecordArrival(at raftfsm.Position) {
	now := c.readMonotonic()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.last, c.arrived = at, now
}

// Anchor records the tick of the log after the entry at a position, which is being applied now;
// the position is zero for a snapshot. own means that this node wrote the entry, in the latest
// term in which it took over: such an entry carries the clock's own count, even if it is applied
// after the end of that term, or if raft makes the node take over twice in one term.
func (c *Clock) Anchor(tick survival.Tick, interval time.Duration, at raftfsm.Position, own bool) {
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
func (c *Clock) readMonotonic() time.Time {
	if c.read != nil {
		return c.read()
	}
	return time.Now()
}

// Now returns the tick and the time that remains until the next one.
func (c *Clock) Now() (tick survival.Tick, untilNext time.Duration) {
	now := c.readMonotonic()
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.countLocked(now)
}

func (c *Clock) countLocked(now time.Time) (tick survival.Tick, untilNext time.Duration) {
	if c.interval == 0 {
		return c.tick, 0
	}
	passed := max(now.Sub(c.at), 0)
	n := passed / c.interval
	return c.tick + survival.Tick(n), (n+1)*c.interval - passed
}

// Interval is the interval; 0 until it is known from the log. Unlike the state machine, it can be
// read while an entry is being applied.
func (c *Clock) Interval() time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.interval
}

// Elapsed is the time since the tick began; zero when it has not begun.
func (c *Clock) Elapsed(tick survival.Tick) time.Duration {
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

// Remaining is the time from now until the tick begins; zero when it has begun.
func (c *Clock) Remaining(tick survival.Tick) time.Duration {
	now, untilNext := c.Now()
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

// LastWithin returns the last tick that begins no later than d from now. The deadline of a transaction is
// computed by the survival index instead: see node/deadline.go.
func (c *Clock) LastWithin(d time.Duration) survival.Tick {
	tick, untilNext := c.Now()
	interval := c.Interval()
	if d < untilNext || interval == 0 {
		return tick
	}
	return tick + 1 + survival.Tick((d-untilNext)/interval)
}
