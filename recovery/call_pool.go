package recovery

import (
	"context"
	"slices"
	"sync/atomic"
	"time"

	"github.com/txmgr/txmgr/adaptive"
)

const (
	// optimizerPeriod is how often a limit is reconsidered: a burst of a few seconds is soon over.
	optimizerPeriod = 250 * time.Millisecond
	// workerCost is what a further call at once must be worth: a worker waits for its participant, and keeps
	// an idle connection open at most.
	workerCost = 0.05
	// poolIdleTimeout is for how long, at least, a lane without work keeps its pool, which is a
	// goroutine and 115 KB. The check runs twice as often.
	poolIdleTimeout = 30 * time.Second
	// maxDecisions is how many decisions are kept of a pool that was closed.
	maxDecisions = 64
)

// workerPool is the pool of a lane while there is work, and what the optimizer has learnt.
// Guarded by Recovery.mu.
type workerPool struct {
	pool      *adaptive.Pool // nil without work
	closing   bool           // a pool is being closed, and uses the optimizer
	lastReady int            // the last value of SetReady
	lastUsed  time.Duration  // when there was last work
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

// setReadyLocked tells a lane's pool how many calls are ready; mu is held.
func (r *Recovery) setReadyLocked(l *lane, now time.Duration) {
	r.lanes.updateActiveLocked(l)
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

// readyLocked is how many calls would begin if there were workers for them. Calls that wait
// for something else are not among them, since they carry no information about the right
// number of workers; mu is held.
func (r *Recovery) readyLocked(l *lane, now time.Duration) int {
	l.setBlockedLocked(r.state != running || !r.reporter.accepting(now) || !l.health.br.Closed(), now)
	ready := l.queued()
	switch {
	case r.state != running, !r.reporter.accepting(now), !l.health.br.Ready(now):
		ready = 0
	case !l.health.br.Closed():
		ready = min(ready, 1)
	}
	return r.calls.allowedLocked(l, ready)
}

// startPoolLocked makes a lane's pool; false while the last one still uses the optimizer. mu
// is held.
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
		// The error becomes the only decision that there will be.
		c.optimizer.Optimizer, c.limit = adaptive.Fixed(0), r.cfg.Start
		c.decisions = append(c.decisions, adaptive.DecisionRecord{At: time.Now(), From: c.limit, To: c.limit, Why: err.Error()})
		pool, err = adaptive.New(adaptive.Config{Optimizer: c.optimizer, Start: c.limit, TaskSource: taskSource{r, l}})
	}
	if err != nil {
		return false
	}
	c.pool, c.lastReady = pool, 0
	if r.lanes.pools++; r.lanes.pools == 1 {
		r.lanes.idleCheckAt = r.now() + poolIdleTimeout
		r.wakeups.wakeByLocked(r.lanes.idleCheckAt)
	}
	return true
}

// closeIdlePoolsLocked closes the pools of lanes that have had no work for a while; mu is
// held.
func (r *Recovery) closeIdlePoolsLocked(now time.Duration) {
	if r.lanes.pools == 0 || now < r.lanes.idleCheckAt {
		return
	}
	r.lanes.idleCheckAt = now + poolIdleTimeout/2
	for _, l := range r.lanes.byName {
		if l.workerPool.pool != nil && l.queued()+l.running == 0 && now-l.workerPool.lastUsed >= poolIdleTimeout {
			r.closePoolLocked(l)
		}
	}
}

// closePoolLocked closes the pool of a lane without work, and keeps what was learnt; mu is
// held.
func (r *Recovery) closePoolLocked(l *lane) {
	c := &l.workerPool
	if r.state != running {
		return
	}
	pool := c.pool
	c.pool, c.closing = nil, true
	r.lanes.pools--
	r.life.wg.Go(func() {
		_ = pool.Close(context.Background()) // it has no tasks, and waits for none
		now := r.now()
		r.mu.Lock()
		defer r.mu.Unlock()
		c.closing = false
		c.limit = pool.Limit()                              // for the same spec
		all := slices.Concat(c.decisions, pool.Decisions()) // a copy: a reader may still use the old slice
		c.decisions = slices.Clone(all[max(0, len(all)-maxDecisions):])
		r.lanes.markDirtyLocked(l)
		r.dispatchLocked(now)
	})
}

// closePools closes all pools, when nothing is started any more.
func (r *Recovery) closePools() {
	r.mu.Lock()
	var pools []*adaptive.Pool
	for _, l := range r.lanes.byName {
		if l.workerPool.pool != nil {
			pools = append(pools, l.workerPool.pool)
		}
	}
	r.mu.Unlock()
	for _, p := range pools {
		_ = p.Close(context.Background()) // waits for workers, each of whose calls has ended
	}
}

// limitLocked is the number of concurrent calls that the participant may get; mu is held.
func (r *Recovery) limitLocked(l *lane) int {
	switch {
	case l.workerPool.pool != nil:
		return l.workerPool.pool.Limit()
	case l.workerPool.limit > 0 && l.workerPool.optimizer.spec == r.optimizerFor(l.name):
		return l.workerPool.limit
	}
	return r.startLimit(l.name)
}

// startLimit is a participant's limit before anything was learnt.
func (r *Recovery) startLimit(participant string) int {
	if c := r.optimizerFor(participant); c.name == fixedSize {
		return c.size
	}
	return r.cfg.Start
}
