package adaptive

import "time"

// TaskSource is work that waits elsewhere, such as in a durable log: the pool asks for a
// task when a worker is free for it, and nothing is copied into a queue before. The
// owner of the work chooses which is next, and keeps to its own rules of who may run
// beside whom; [WeightedRoundRobin] helps with precedence. With tasks in the pool's queue as well,
// those come first.
//
// The pool learns by [Pool.SetReady] that there is something to ask for.
type TaskSource interface {
	// Next gives the task that is next, and since when it could have begun if there had
	// been a worker for it; a nil task if none may start. Limit is the pool's, of
	// which a group of tasks may have a share. It is called by workers, many at a time,
	// without a lock of the pool held, and may call Offer; it must not block.
	//
	// The time is one of [time.Now]; the zero time, and one that is still to come, mean
	// now. The time for which the task waited for something else than a worker, such as
	// its next try, is not to be counted: the task's latency is measured from there, as
	// that of a submitted task is from its submission.
	Next(limit int) (task Task, ready time.Time)
}

// sourceState is what the feed has, as it last said.
type sourceState struct {
	ready   int    // tasks that would start if there were workers
	limited int    // tasks that would start if their group's share were larger
	version uint64 // number of the offer
}

// maxReady bounds what is believed of an offer, so that integrals cannot overflow.
const maxReady = 1 << 24

// SetReady tells a pool with a [TaskSource] how many tasks could start at once if there were
// workers for them (ready), and how many only wait because their group has its share
// of the limit (held). Both say that the limit binds; so what waits for something
// else, as for a participant that is down, belongs to neither.
//
// The feed calls it after each change, those by Next included, in the order of the
// changes, which is to say with its own lock held. It never blocks, and starts
// workers as far as the limit allows. In a closed pool it has no effect.
func (p *Pool) SetReady(ready, limited int) {
	now := p.now()
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed || p.cfg.TaskSource == nil {
		return
	}
	p.advanceLocked(now)
	p.source = sourceState{
		ready:   min(max(ready, 0), maxReady),
		limited: min(max(limited, 0), maxReady),
		version: p.source.version + 1,
	}
	p.startLocked(now)
}

// arrival is when a task of the feed arrived, on the pool's scale; before the pool was
// made, maybe.
func (p *Pool) arrival(ready time.Time, now time.Duration) time.Duration {
	if ready.IsZero() {
		return now
	}
	return min(ready.Sub(p.epoch), now)
}

// ask gives a worker what the feed has next, or a job of the queue that came
// meanwhile; nil if the worker is to end.
func (p *Pool) ask() (*job, time.Duration) {
	p.mu.Lock()
	for p.running <= p.limit && !p.closed {
		limit, version := p.limit, p.source.version
		p.mu.Unlock()
		task, ready := p.cfg.TaskSource.Next(limit)
		now := p.now()
		p.mu.Lock()
		p.advanceLocked(now)
		if task != nil {
			p.asking--
			p.counters.arrived++
			j := p.newJobLocked(task, p.arrival(ready, now))
			p.startLocked(now) // what is offered beyond this one
			if p.limit != limit {
				p.askLocked()
			}
			p.mu.Unlock()
			return j, now
		}
		// What came while the feed was asked, it may not have seen.
		if p.limit == limit && (p.source.version == version || p.source.ready == 0) {
			break
		}
	}
	defer p.mu.Unlock()
	now := p.now()
	p.advanceLocked(now)
	p.asking--
	if p.running <= p.limit {
		if j := p.takeLocked(); j != nil {
			return j, now
		}
	}
	p.running--
	p.drainedLocked()
	return nil, 0
}
