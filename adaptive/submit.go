package adaptive

import (
	"context"
	"time"
)

// TrySubmit submits a task, to be run once and soon on another goroutine. It
// never blocks: it returns [ErrFull] when there is neither a worker nor a place in the
// queue, [ErrClosed] after Close, and [ErrTask] for nil.
func (p *Pool) TrySubmit(task Task) error {
	if task == nil {
		return ErrTask
	}
	now := p.now()
	p.mu.Lock()
	defer p.mu.Unlock()
	_, err := p.acceptLocked(task, nil, now)
	return err
}

// Submit submits a task, and waits as long as there is no place in the queue;
// waiting submitters are served in turn. It returns ctx's error when ctx ends
// before, [ErrClosed] after Close, and [ErrTask] for nil; then the task is not run.
// The task does not see ctx.
//
// A task may submit tasks. But when all running tasks wait in Submit for a place
// in the full queue of their own pool, none of them can make room for the tasks in
// it: they wait until a ctx ends, or the limit grows. Such tasks use TrySubmit.
func (p *Pool) Submit(ctx context.Context, task Task) error {
	_, err := p.submit(ctx, task, nil)
	return err
}

// Do submits a task as Submit does, waits until it has ended, and returns its
// error. When ctx ends while the task is still waiting, the task is withdrawn, and
// ctx's error returned. When Do returns, the task is not running.
//
// A task that calls Do keeps its worker while it waits: when as many tasks as the
// limit do so, no worker is left for the tasks that they wait for, until a ctx ends or the
// limit grows.
func (p *Pool) Do(ctx context.Context, task Task) error {
	done := make(chan struct{})
	j, err := p.submit(ctx, task, done)
	if err != nil {
		return err
	}
	select {
	case <-done:
		return j.err
	case <-ctx.Done():
	}
	p.mu.Lock()
	p.advanceLocked(p.now())
	withdrawn := p.queue.remove(j)
	if withdrawn {
		p.admitLocked()
	}
	p.mu.Unlock()
	if withdrawn {
		return context.Cause(ctx)
	}
	<-done
	return j.err
}

// acceptLocked starts a task or puts it into the queue; mu is held.
func (p *Pool) acceptLocked(task Task, done chan struct{}, now time.Duration) (*job, error) {
	switch {
	case p.closed:
		return nil, ErrClosed
	case p.running >= p.limit && p.queue.n >= p.cfg.Queue:
		return nil, ErrFull
	}
	p.advanceLocked(now)
	j := p.newJobLocked(task, now)
	j.done = done
	p.queue.push(j)
	p.counters.arrived++
	p.startLocked(now)
	return j, nil
}

// submit accepts a task, or waits until it is accepted. A job without done must not
// be used afterwards: it may have been reused by then.
func (p *Pool) submit(ctx context.Context, task Task, done chan struct{}) (*job, error) {
	if task == nil {
		return nil, ErrTask
	}
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	now := p.now()
	p.mu.Lock()
	j, err := p.acceptLocked(task, done, now)
	if err != ErrFull {
		p.mu.Unlock()
		return j, err
	}
	p.advanceLocked(now)
	j = &job{task: task, arrived: now, done: done, admitted: make(chan struct{})}
	p.blocked.push(j)
	p.mu.Unlock()
	return j, p.awaitPlace(ctx, j)
}

// awaitPlace waits until a blocked job is accepted.
func (p *Pool) awaitPlace(ctx context.Context, j *job) error {
	select {
	case <-j.admitted:
	case <-ctx.Done():
		p.mu.Lock()
		p.advanceLocked(p.now())
		withdrawn := p.blocked.remove(j)
		p.mu.Unlock()
		if withdrawn {
			return context.Cause(ctx)
		}
		<-j.admitted
	}
	if j.refused {
		return ErrClosed
	}
	return nil
}
