package adaptive

import "time"

// TaskSource is work that waits elsewhere, such as in a durable log: the pool asks for a
// task when a worker is free for it, and nothing is copied into a queue before. The
// owner of the work chooses which task is next, and keeps its own rules of which tasks may
// run together; [WeightedRoundRobin] helps with precedence. Tasks in the pool's own queue
// come first.
//
// [Pool.SetReady] tells the pool that there are tasks to ask for.
type TaskSource interface {
	// Next returns the next task, and since when it could have begun if there had
	// been a worker for it; a nil task if none may start. Limit is the pool's, of
	// which a group of tasks may have a share. It is called by workers, many at a time,
	// without a lock of the pool held, and may call SetReady; it must not block.
	//
	// The time is one of [time.Now]; the zero time, and one in the future, mean
	// now. The time for which the task waited for something else than a worker, such as
	// its next attempt, does not count: the task's latency is measured from the returned time,
	// as that of a submitted task is from its submission.
	Next(limit int) (task Task, ready time.Time)
}

// sourceState is the last SetReady of the task source.
type sourceState struct {
	ready   int    // tasks that would start if there were workers
	limited int    // tasks that would start if their group's share were larger
	version uint64 // number of the SetReady
}

// maxReady bounds the numbers of SetReady, so that integrals cannot overflow.
const maxReady = 1 << 24

// SetReady tells a pool with a [TaskSource] how many tasks could start at once if there were
// workers for them (ready), and how many only wait because their group has its share
// of the limit (limited). Both mean that the limit binds; so tasks that wait for something
// else, such as a participant that is down, belong to neither.
//
// The task source calls it after each change, those by Next included, in the order of the
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

// arrival is when a task of the task source was ready, on the pool's scale; possibly before
// the pool was made.
func (p *Pool) arrival(ready time.Time, now time.Duration) time.Duration {
	if ready.IsZero() {
		return now
	}
	return min(ready.Sub(p.epoch), now)
}

// ask returns the source's next task for a worker, or a job of the queue that arrived
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
			p.startLocked(now) // the tasks that are ready beyond this one
			if p.limit != limit {
				p.askLocked()
			}
			p.mu.Unlock()
			return j, now
		}
		// The source may not have seen changes that came while it was asked.
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
