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
//
// A follower's count is behind the leader's as long as both count on from an entry of
// that leader's: the follower applied it after the leader had stamped it. So it is never
// ahead of the one by which the leader gives deadlines. The first entry of another
// leader is taken over also when it says less: one that was restarted may lag behind,
// and the deadlines that it gives would be over too early by another count. What a
// leader leaves behind when it dies is applied when there is a new one, an election
// later; it comes from the same leader as the entry before, and does not set the count
// back. Every other entry does: no two oscillators are the same, and a count that is
// never corrected would be seconds ahead after a day.
type clock struct {
	mu       sync.Mutex
	interval time.Duration // guarded by mu: 0 until the log has said it
	tick     survival.Tick // guarded by mu: a tick of the log
	at       time.Time     // guarded by mu: when it was applied here
	term     uint64        // guarded by mu: of the entry that was observed last; 0 when not known
}

// observe notes the tick of the log after an entry of the given term, which is being
// applied now; the term is 0 for a snapshot. own says that this node wrote the entry,
// in the latest term in which it took over: it carries what the clock counted itself, also
// when it is applied after the end of that, and when raft makes it take over twice in one
// term. left says that who wrote it leads no more.
func (c *clock) observe(tick survival.Tick, interval time.Duration, term uint64, own, left bool) {
	now := time.Now()
	c.mu.Lock()
	defer c.mu.Unlock()
	counted, _ := c.count(now)
	keep := own || left && term == c.term && term != 0
	if c.at.IsZero() || tick > counted || !keep {
		c.tick, c.at = tick, now
	}
	c.interval, c.term = interval, term
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

// since is the time that has passed since the tick began; zero when it has not.
func (c *clock) since(tick survival.Tick) time.Duration {
	now := time.Now()
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
