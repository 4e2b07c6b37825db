package timeoutbench

import "github.com/txmgr/txmgr/timeout"

// scanInterval is for how many ticks the thread of a copy-and-scan sleeps: ten seconds. The
// source of the hashbelt calls it a brief period.
const scanInterval = 10 * second

// copyScan expires sessions as Tomcat did, according to the source of the hashbelt: each stands in
// one hash table and has its end. A thread wakes up, copies all of them into a vector with the
// table locked, and then tests each for staleness, with the table unlocked. It removes the stale
// ones from the table.
type copyScan struct {
	optionalMutex
	table    map[uint64]*session
	lastScan timeout.Tick
	stale    []uint64 // that were removed
	taken    int      // how many of stale
}

type session struct {
	id  uint64
	end timeout.Tick
}

func newCopyScan(shared bool) Timers[struct{}] {
	return &copyScan{optionalMutex: newOptionalMutex(shared), table: make(map[uint64]*session)}
}

func (c *copyScan) Add(ids []uint64, ends []timeout.Tick, _ []struct{}) {
	for n, id := range ids {
		s := &session{id, ends[n]}
		c.lock()
		c.table[id] = s
		c.unlock()
	}
}

func (c *copyScan) Cancel(ids []uint64, _ []struct{}) int {
	cancelled := 0
	for _, id := range ids {
		c.lock()
		if _, ok := c.table[id]; ok {
			delete(c.table, id)
			cancelled++
		}
		c.unlock()
	}
	return cancelled
}

func (c *copyScan) Step(to timeout.Tick, buf []uint64) int {
	if now := to - to%scanInterval; now > c.lastScan {
		c.lastScan = now
		c.scan(now)
	}
	n := copy(buf, c.stale[c.taken:])
	if c.taken += n; c.taken == len(c.stale) {
		c.stale, c.taken = c.stale[:0], 0
	}
	return n
}

// scan is one run of the thread.
func (c *copyScan) scan(now timeout.Tick) {
	c.lock()
	vector := make([]*session, 0, len(c.table))
	for _, s := range c.table {
		vector = append(vector, s)
	}
	c.unlock()
	for _, s := range vector {
		if s.end > now {
			continue
		}
		c.lock()
		delete(c.table, s.id)
		c.unlock()
		c.stale = append(c.stale, s.id)
	}
}

// Late is for how long the thread may oversleep an end.
func (*copyScan) Late() timeout.Tick { return scanInterval - 1 }
