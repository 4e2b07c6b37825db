package adaptive

import (
	"context"
	"errors"
	"runtime/debug"
	"time"
)

// startLocked starts workers for what waits, as far as the limit allows; mu is held.
func (p *Pool) startLocked(now time.Duration) {
	for p.running < p.limit {
		j := p.takeLocked()
		if j == nil {
			break
		}
		p.running++
		go p.work(j, now)
	}
	for p.asking < p.source.ready && p.askLocked() {
	}
}

// askLocked starts a worker that asks the task source, if another may run; mu is held.
func (p *Pool) askLocked() bool {
	if p.running >= p.limit || p.closed {
		return false
	}
	p.running++
	p.asking++
	go p.work(nil, 0)
	return true
}

// work is a worker: it runs a job, and others as long as there are some. Without a
// job it asks the task source for one.
func (p *Pool) work(j *job, start time.Duration) {
	told, left := false, false
	defer func() {
		if !left {
			p.workerExited(j, told)
		}
	}()
	for {
		if j == nil {
			if j, start = p.ask(); j == nil {
				left = true
				return
			}
		}
		err := run(j.task)
		end := p.now()
		told = true
		p.reportResult(j, err)
		told = false
		next, more := p.finishTask(j, resultOf(err), start, end)
		if !more {
			left = true
			return
		}
		j, start = next, end
	}
}

// run runs a task and makes an error of its panic.
func run(task Task) (err error) {
	defer func() {
		if v := recover(); v != nil {
			err = &PanicError{v, debug.Stack()}
		}
	}()
	return task()
}

// reportResult passes the result of a task to its submitter or to Config.OnError.
func (p *Pool) reportResult(j *job, err error) {
	switch {
	case j.done != nil:
		j.err = err
		close(j.done)
	case err != nil && p.cfg.OnError != nil:
		p.cfg.OnError(err)
	}
}

// finishTask counts a task and returns the worker's next job, or nil if the task source is to
// be asked; false if the worker is to end.
func (p *Pool) finishTask(j *job, r result, start, now time.Duration) (*job, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.advanceLocked(now)
	p.countLocked(r)
	if r != timedOut {
		p.times.service.Record(now - start)
		p.times.sojourn.Record(now - j.arrived)
	}
	p.recycleLocked(j)
	if p.running <= p.limit {
		if next := p.takeLocked(); next != nil {
			return next, true
		}
		if p.asking < p.source.ready && !p.closed {
			p.asking++
			return nil, true
		}
	}
	p.running--
	p.drainedLocked()
	return nil, false
}

// workerExited is the end of a worker whose goroutine was ended by its task, by the code that
// received the task's result, or by the task source.
func (p *Pool) workerExited(j *job, told bool) {
	if j != nil && !told {
		p.reportResult(j, ErrExited)
	}
	now := p.now()
	p.mu.Lock()
	defer p.mu.Unlock()
	p.advanceLocked(now)
	if j != nil {
		p.countLocked(failed)
	} else {
		p.asking--
	}
	p.running--
	p.startLocked(now)
	p.drainedLocked()
}

// result is how a task ended, as far as the pool distinguishes it.
type result uint8

const (
	succeeded result = iota
	failed
	panicked
	timedOut
)

func resultOf(err error) result {
	if err == nil {
		return succeeded
	}
	if errors.As(err, new(*PanicError)) {
		return panicked
	}
	if errors.Is(err, context.DeadlineExceeded) {
		return timedOut
	}
	return failed
}
