package node

import (
	"math"
	"sync"
	"time"

	"github.com/txmgr/txmgr/timeout/survival"
)

// clock counts invocations of the timeout thread on the process's monotonic
// clock. It goes on from the last tick that the log has shown and the instant at
// which this replica applied it. That instant is not before the one at which the
// tick began, so the count can be late, by the replication delay and the time
// the cluster was down, and is never early. The wall clock plays no part.
type clock struct {
	mu       sync.Mutex
	interval time.Duration // guarded by mu: 0 until the log has said it
	tick     survival.Tick // guarded by mu: a tick of the log
	at       time.Time     // guarded by mu: when it was applied here
}

// observe notes a tick of the log that is being applied now. A leader's own
// entries do not move its clock, since they carry what it counted itself.
func (c *clock) observe(tick survival.Tick, interval time.Duration) {
	now := time.Now()
	c.mu.Lock()
	defer c.mu.Unlock()
	counted, _ := c.count(now)
	if c.at.IsZero() || tick > counted {
		c.tick, c.at = tick, now
	}
	c.interval = interval
}

// now gives the tick and the time that remains until the next one.
func (c *clock) now() (tick survival.Tick, untilNext time.Duration) {
	now := time.Now()
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.count(now)
}

func (c *clock) count(now time.Time) (tick survival.Tick, untilNext time.Duration) {
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

// until is the time from now until the tick begins; zero when it has begun.
func (c *clock) until(tick survival.Tick) time.Duration {
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
