package recovery

import (
	"cmp"
	"slices"
	"time"

	"github.com/txmgr/txmgr/adaptive"
	"github.com/txmgr/txmgr/recovery/plan"
	"github.com/txmgr/txmgr/txn"
)

// RetryState is, for one unfinished branch, what was tried and what it waits for.
type RetryState struct {
	Branch      txn.BranchID
	Participant string
	Action      plan.Action
	Count       int             // failed attempts of this leader
	LastError   string          // of the last of them; at most 300 bytes
	Running     bool            // a call is under way, or its result is being recorded
	WaitReason  plan.WaitReason // why it has to wait
	NextTry     time.Duration   // from now; 0 when it waits for a worker only
}

// RetryStates reports why a transaction is not finished: one RetryState for each
// unfinished branch. It is nil when nothing is left to be done.
func (r *Recovery) RetryStates(id txn.ID) []RetryState {
	w, ok := r.log.Pending(id)
	if !ok {
		return nil
	}
	w.ID = id
	now := r.now()
	r.mu.Lock()
	defer r.mu.Unlock()
	t := r.pending.transactions[id]
	steps := plan.Plan(w, plan.View{
		Now:          now,
		GraceExpired: r.graceExpiredLocked(&w, &t),
		NextTry:      r.nextTryLocked,
		NextProbe:    r.nextProbeLocked,
	})
	as := make([]RetryState, len(steps))
	for i, s := range steps {
		as[i] = RetryState{Branch: s.Branch, Participant: s.Participant, Action: s.Action, WaitReason: s.WaitReason, NextTry: s.Wait}
		if t := r.attempts[item{plan.Key{TX: id, Branch: s.Branch}, s.Action}]; t != nil {
			as[i].Count, as[i].LastError = int(t.count), t.lastErr
			if t.state == calling || t.state == reporting {
				as[i].Running, as[i].WaitReason, as[i].NextTry = true, plan.Ready, 0
			}
		}
	}
	return as
}

func (r *Recovery) nextTryLocked(k plan.Key, v plan.Action) time.Duration {
	if t := r.attempts[item{k, v}]; t != nil && t.state == backingOff {
		return timerDue(&t.timer)
	}
	return 0
}

func (r *Recovery) nextProbeLocked(participant string) time.Duration {
	if l := r.lanes.byName[participant]; l != nil {
		return l.health.br.NextProbe()
	}
	return 0
}

// Health is the health of a participant as this node sees it.
type Health struct {
	Healthy   bool          // the last call was answered, the last probe too, and the last sweep listed the prepared branches
	Since     time.Time     // when Healthy last changed; zero before the first contact
	Took      time.Duration // by the last probe, or the last sweep whose scan failed; 0 when there was none
	Failures  int           // calls that failed since the last that was answered
	LastError string        // of them, or else of the last probe, sweep or pruning; at most 300 bytes
	NextTry   time.Duration // until the next probe, when it is not healthy
	Queued    int           // branches that wait for a worker, or for the participant
	Waiting   int           // branches that wait for their next attempt after a failure
	Running   int           // calls under way

	Optimizer       string                  // what chooses the limit: an [OptimizerSpec], or custom
	Limit           int                     // allowed concurrent calls
	Raised, Lowered uint64                  // decisions of this leader for a larger limit, and for a smaller one
	Throughput      float64                 // calls answered per second, over the last 10 to 20 seconds
	Mean, P99       time.Duration           // from when the calls were ready to their ends
	Last            adaptive.DecisionRecord // the last decision about the limit; zero when there was none
}

// Health returns the health of a participant. A participant without contact so far counts
// as healthy; it is probed within two Config.SweepEvery. One failure makes a participant
// unhealthy: its branch is tried again within Config.BackoffMax, so that the status is
// never older than that while there is work. Failures whose branches were finished by
// others are cleared by the next sweep.
func (r *Recovery) Health(participant string) Health {
	h, pool := r.health(participant)
	if pool != nil {
		s := pool.Stats() // without the lock: it sums histograms
		h.Limit, h.Throughput, h.Mean, h.P99 = s.Limit, s.Throughput, s.Mean, s.P99
		if !s.Last.At.IsZero() {
			h.Last = s.Last
		}
	}
	return h
}

func (r *Recovery) health(participant string) (Health, *adaptive.Pool) {
	now := r.now()
	r.mu.Lock()
	defer r.mu.Unlock()
	l := r.lanes.byName[participant]
	if l == nil {
		return Health{Healthy: true, Optimizer: r.optimizerFor(participant).String(), Limit: r.startLimit(participant)}, nil
	}
	h := Health{
		Healthy:  l.health.healthy(),
		Since:    l.health.since,
		Took:     l.health.took,
		Failures: l.health.fails,
		NextTry:  max(0, l.health.br.NextProbe()-now),
		Queued:   l.queued(),
		Waiting:  l.backingOff,
		Running:  l.running,
		Limit:    r.limitLocked(l),

		Optimizer: r.optimizerFor(participant).String(),
	}
	h.LastError = cmp.Or(l.health.lastErr, l.health.probeErr, l.health.sweepErr, l.health.pruneErr)
	c := &l.workerPool
	if c.optimizer != nil {
		h.Raised, h.Lowered = c.optimizer.raised.Load(), c.optimizer.lowered.Load()
	}
	if n := len(c.decisions); n > 0 {
		h.Last = c.decisions[n-1]
	}
	return h, c.pool
}

// Decisions returns the recent decisions about a participant's limit, oldest first: of this
// leader, up to 320 while there is work, and 64 after a while without work.
func (r *Recovery) Decisions(participant string) []adaptive.DecisionRecord {
	r.mu.Lock()
	l := r.lanes.byName[participant]
	if l == nil {
		r.mu.Unlock()
		return nil
	}
	past, pool := l.workerPool.decisions, l.workerPool.pool
	r.mu.Unlock()
	all := slices.Clone(past)
	if pool != nil {
		all = append(all, pool.Decisions()...)
	}
	return all
}
