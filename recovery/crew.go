package recovery

import (
	"context"
	"slices"
	"sync/atomic"
	"time"

	"github.com/txmgr/txmgr/adaptive"
)

const (
	// learnEvery is how often a limit is thought about: a storm of seconds is over soon.
	learnEvery = 250 * time.Millisecond
	// restAfter is for how long, at least, a lane without work keeps its pool, which is a
	// goroutine and 115 KB. It is half as long between two looks.
	restAfter = 30 * time.Second
	// pastDecisions is how many decisions are kept of a pool that rests.
	pastDecisions = 64
)

// crew is who works for a lane: a pool while there is work, and what it has learnt.
// Guarded by Recovery.mu.
type crew struct {
	pool    *adaptive.Pool // nil while nothing is to be done
	leaving bool           // a pool is being closed, and has the brain
	offered int            // what the pool was last told
	used    time.Duration  // when there was work last
	brain   *brain
	limit   int // of the last pool
	past    []adaptive.Decided
}

// brain is an optimizer that outlives its pools, and counts what it decided.
type brain struct {
	adaptive.Optimizer
	choice          Choice
	raised, lowered atomic.Uint64
}

// Observe counts the decisions that change the limit.
func (b *brain) Observe(w *adaptive.Window) adaptive.Decision {
	d := b.Optimizer.Observe(w)
	switch {
	case d.Limit > w.Limit:
		b.raised.Add(1)
	case d.Limit < w.Limit:
		b.lowered.Add(1)
	}
	return d
}

// offerLocked tells a lane's pool what could begin now; mu is held.
func (r *Recovery) offerLocked(l *lane, now time.Duration) {
	r.activeLocked(l)
	c := &l.crew
	if c.pool != nil && c.brain.choice != r.choice(l.name) {
		r.restLocked(l)
	}
	ready := r.readyLocked(l, now)
	if ready > 0 || l.running > 0 {
		c.used = now
	}
	if c.pool == nil && (ready == 0 || !r.hireLocked(l)) || ready == 0 && c.offered == 0 {
		return
	}
	c.offered = ready
	c.pool.Offer(ready, 0)
}

// readyLocked is how many calls would begin if there were workers for them. What waits
// for something else is not among them, for it says nothing about how many workers are
// right; mu is held.
func (r *Recovery) readyLocked(l *lane, now time.Duration) int {
	l.shutLocked(r.state != running || !r.outbox.open(now) || !l.br.closed(), now)
	ready := l.queued()
	switch {
	case r.state != running, !r.outbox.open(now), !l.br.ready(now):
		ready = 0
	case !l.br.closed():
		ready = min(ready, 1)
	}
	return r.shareLocked(l, ready)
}

// hireLocked gives a lane its pool; false while the last one still has the brain. mu is
// held.
func (r *Recovery) hireLocked(l *lane) bool {
	c := &l.crew
	if c.leaving {
		return false
	}
	if choice := r.choice(l.name); c.brain == nil || c.brain.choice != choice {
		c.brain = &brain{Optimizer: r.optimizer(choice), choice: choice}
		c.limit = r.cfg.Start
		if n, ok := c.brain.Optimizer.(adaptive.Fixed); ok && n > 0 {
			c.limit = int(n)
		}
	}
	pool, err := adaptive.New(adaptive.Config{Optimizer: c.brain, Start: c.limit, Feed: feed{r, l}})
	if err != nil {
		// Whoever gave the optimizer is told by the only decision there will be.
		c.brain.Optimizer, c.limit = adaptive.Fixed(0), r.cfg.Start
		c.past = append(c.past, adaptive.Decided{At: time.Now(), From: c.limit, To: c.limit, Why: err.Error()})
		pool, err = adaptive.New(adaptive.Config{Optimizer: c.brain, Start: c.limit, Feed: feed{r, l}})
	}
	if err != nil {
		return false
	}
	c.pool, c.offered = pool, 0
	if r.pools++; r.pools == 1 {
		r.restAt = r.now() + restAfter
		r.wakeByLocked(r.restAt)
	}
	return true
}

// restIdleLocked lets go the pools of lanes that have had no work for a while; mu is
// held.
func (r *Recovery) restIdleLocked(now time.Duration) {
	if r.pools == 0 || now < r.restAt {
		return
	}
	r.restAt = now + restAfter/2
	for _, l := range r.lanes {
		if l.crew.pool != nil && l.queued()+l.running == 0 && now-l.crew.used >= restAfter {
			r.restLocked(l)
		}
	}
}

// restLocked lets go the pool of a lane without work, and keeps what was learnt; mu is
// held.
func (r *Recovery) restLocked(l *lane) {
	c := &l.crew
	if r.state != running {
		return
	}
	pool := c.pool
	c.pool, c.leaving = nil, true
	r.pools--
	r.wg.Go(func() {
		_ = pool.Close(context.Background()) // it has no tasks, and waits for none
		now := r.now()
		r.mu.Lock()
		defer r.mu.Unlock()
		c.leaving = false
		c.limit = pool.Limit()                         // for the same choice
		all := slices.Concat(c.past, pool.Decisions()) // whoever reads the old one may go on
		c.past = slices.Clone(all[max(0, len(all)-pastDecisions):])
		r.touchLocked(l)
		r.dispatchLocked(now)
	})
}

// dismiss ends all pools, when nothing is started any more.
func (r *Recovery) dismiss() {
	r.mu.Lock()
	var pools []*adaptive.Pool
	for _, l := range r.lanes {
		if l.crew.pool != nil {
			pools = append(pools, l.crew.pool)
		}
	}
	r.mu.Unlock()
	for _, p := range pools {
		_ = p.Close(context.Background()) // waits for workers, each of whose calls has ended
	}
}

// limitLocked is how many calls the participant gets at once; mu is held.
func (r *Recovery) limitLocked(l *lane) int {
	switch {
	case l.crew.pool != nil:
		return l.crew.pool.Limit()
	case l.crew.limit > 0 && l.crew.brain.choice == r.choice(l.name):
		return l.crew.limit
	}
	return r.startOf(l.name)
}

// startOf is how many calls a participant gets at once before anything was learnt.
func (r *Recovery) startOf(participant string) int {
	if c := r.choice(participant); c.name == fixedSize {
		return c.size
	}
	return r.cfg.Start
}
