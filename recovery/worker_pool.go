package recovery

import (
	"context"
	"slices"
	"sync/atomic"
	"time"

	"github.com/txmgr/txmgr/adaptive"
)

const (
	// optimizerPeriod is how often a limit is thought about: a storm of seconds is over soon.
	optimizerPeriod = 250 * time.Millisecond
	// poolIdleTimeout is for how long, at least, a lane without work keeps its pool, which is a
	// goroutine and 115 KB. It is half as long between two looks.
	poolIdleTimeout = 30 * time.Second
	// maxDecisions is how many decisions are kept of a pool that rests.
	maxDecisions = 64
)

// workerPool is who works for a lane: a pool while there is work, and what it has learnt.
// Guarded by Recovery.mu.
type workerPool struct {
	pool      *adaptive.Pool // nil while nothing is to be done
	closing   bool           // a pool is being closed, and has the brain
	lastReady int            // what the pool was last told
	lastUsed  time.Duration  // when there was work last
	optimizer *countingOptimizer
	limit     int // of the last pool
	decisions []adaptive.DecisionRecord
}

// countingOptimizer is an optimizer that outlives its pools, and counts what it decided.
type countingOptimizer struct {
	adaptive.Optimizer
	spec            OptimizerSpec
	raised, lowered atomic.Uint64
}

// Observe counts the decisions that change the limit.
func (b *countingOptimizer) Observe(w *adaptive.Window) adaptive.Decision {
	d := b.Optimizer.Observe(w)
	switch {
	case d.Limit > w.Limit:
		b.raised.Add(1)
	case d.Limit < w.Limit:
		b.lowered.Add(1)
	}
	return d
}

// setReadyLocked tells a lane's pool what could begin now; mu is held.
func (r *Recovery) setReadyLocked(l *lane, now time.Duration) {
	r.updateActiveLocked(l)
	c := &l.workerPool
	if c.pool != nil && c.optimizer.spec != r.optimizerFor(l.name) {
		r.closePoolLocked(l)
	}
	ready := r.readyLocked(l, now)
	if ready > 0 || l.running > 0 {
		c.lastUsed = now
	}
	if c.pool == nil && (ready == 0 || !r.startPoolLocked(l)) || ready == 0 && c.lastReady == 0 {
		return
	}
	c.lastReady = ready
	c.pool.SetReady(ready, 0)
}

// readyLocked is how many calls would begin if there were workers for them. What waits
// for something else is not among them, for it says nothing about how many workers are
// right; mu is held.
func (r *Recovery) readyLocked(l *lane, now time.Duration) int {
	l.setBlockedLocked(r.state != running || !r.reporter.accepting(now) || !l.br.closed(), now)
	ready := l.queued()
	switch {
	case r.state != running, !r.reporter.accepting(now), !l.br.ready(now):
		ready = 0
	case !l.br.closed():
		ready = min(ready, 1)
	}
	return r.allowedLocked(l, ready)
}

// startPoolLocked gives a lane its pool; false while the last one still has the brain. mu is
// held.
func (r *Recovery) startPoolLocked(l *lane) bool {
	c := &l.workerPool
	if c.closing {
		return false
	}
	if choice := r.optimizerFor(l.name); c.optimizer == nil || c.optimizer.spec != choice {
		c.optimizer = &countingOptimizer{Optimizer: r.newOptimizer(choice), spec: choice}
		c.limit = r.cfg.Start
		if n, ok := c.optimizer.Optimizer.(adaptive.Fixed); ok && n > 0 {
			c.limit = int(n)
		}
	}
	pool, err := adaptive.New(adaptive.Config{Optimizer: c.optimizer, Start: c.limit, TaskSource: taskSource{r, l}})
	if err != nil {
		// Whoever gave the optimizer is told by the only decision there will be.
		c.optimizer.Optimizer, c.limit = adaptive.Fixed(0), r.cfg.Start
		c.decisions = append(c.decisions, adaptive.DecisionRecord{At: time.Now(), From: c.limit, To: c.limit, Why: err.Error()})
		pool, err = adaptive.New(adaptive.Config{Optimizer: c.optimizer, Start: c.limit, TaskSource: taskSource{r, l}})
	}
	if err != nil {
		return false
	}
	c.pool, c.lastReady = pool, 0
	if r.pools++; r.pools == 1 {
		r.idleCheckAt = r.now() + poolIdleTimeout
		r.wakeByLocked(r.idleCheckAt)
	}
	return true
}

// closeIdlePoolsLocked lets go the pools of lanes that have had no work for a while; mu is
// held.
func (r *Recovery) closeIdlePoolsLocked(now time.Duration) {
	if r.pools == 0 || now < r.idleCheckAt {
		return
	}
	r.idleCheckAt = now + poolIdleTimeout/2
	for _, l := range r.lanes {
		if l.workerPool.pool != nil && l.queued()+l.running == 0 && now-l.workerPool.lastUsed >= poolIdleTimeout {
			r.closePoolLocked(l)
		}
	}
}

// closePoolLocked lets go the pool of a lane without work, and keeps what was learnt; mu is
// held.
func (r *Recovery) closePoolLocked(l *lane) {
	c := &l.workerPool
	if r.state != running {
		return
	}
	pool := c.pool
	c.pool, c.closing = nil, true
	r.pools--
	r.wg.Go(func() {
		_ = pool.Close(context.Background()) // it has no tasks, and waits for none
		now := r.now()
		r.mu.Lock()
		defer r.mu.Unlock()
		c.closing = false
		c.limit = pool.Limit()                              // for the same choice
		all := slices.Concat(c.decisions, pool.Decisions()) // whoever reads the old one may go on
		c.decisions = slices.Clone(all[max(0, len(all)-maxDecisions):])
		r.markDirtyLocked(l)
		r.dispatchLocked(now)
	})
}

// closePools ends all pools, when nothing is started any more.
func (r *Recovery) closePools() {
	r.mu.Lock()
	var pools []*adaptive.Pool
	for _, l := range r.lanes {
		if l.workerPool.pool != nil {
			pools = append(pools, l.workerPool.pool)
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
	case l.workerPool.pool != nil:
		return l.workerPool.pool.Limit()
	case l.workerPool.limit > 0 && l.workerPool.optimizer.spec == r.optimizerFor(l.name):
		return l.workerPool.limit
	}
	return r.startLimit(l.name)
}

// startLimit is how many calls a participant gets at once before anything was learnt.
func (r *Recovery) startLimit(participant string) int {
	if c := r.optimizerFor(participant); c.name == fixedSize {
		return c.size
	}
	return r.cfg.Start
}
