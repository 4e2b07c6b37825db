package adaptive

import (
	"context"
	"fmt"
	"runtime"
	"sync"
	"time"
)

// Task is a function that a worker runs once. Its error is counted, and returned to
// the submitter that waits for the task, or else passed to Config.OnError. A task whose
// error wraps [context.DeadlineExceeded] counts as timed out and not as completed, and its
// time is not recorded: it shows how long a deadline is, not how long the work takes.
type Task func() error

// DefaultQueue is the default of Config.Queue.
const DefaultQueue = 4096

// MaxQueue is the longest queue that can be configured.
const MaxQueue = 1 << 24

// Config configures a pool. The zero value is usable.
type Config struct {
	// Optimizer decides how many tasks run at once. It belongs to the pool from then
	// on. Defaults to a [Knee].
	Optimizer Optimizer
	// Start is the limit in the beginning. Defaults to that of a [Fixed] optimizer, or
	// else to GOMAXPROCS.
	Start int
	// Queue is how many tasks may wait for a worker. Defaults to 4096.
	Queue int
	// TaskSource, if any, provides further tasks; see there. Defaults to none.
	TaskSource TaskSource
	// OnError receives the errors of tasks without a waiting submitter, a [*PanicError]
	// among them. It runs on the worker, which does nothing else meanwhile, and may
	// be called many times at once. Defaults to none: errors are counted.
	OnError func(error)
	// CPU, if any, returns which part of its processors the process is using, from 0 to 1;
	// see [Knee].MaxCPU. It is called once in a window. Defaults to not known.
	CPU func() float64
}

// Pool runs tasks on as many goroutines as its limit allows, and no more. It has no
// workers when it has no tasks. All methods are safe for concurrent use. Close ends
// it; a pool that is not closed keeps one goroutine.
type Pool struct {
	cfg        Config
	epoch      time.Time
	controller controller
	recent     recent
	stop       context.CancelFunc
	drained    chan struct{} // closed when the last task has ended after Close

	mu              sync.Mutex // guards what follows
	limit           int
	running         int         // workers, each with a task or about to ask the task source for one
	asking          int         // those that ask the task source
	queue           jobQueue    // accepted tasks
	blocked         jobQueue    // tasks of submitters that wait for a place in the queue
	free            *job        // to be used again
	spare           int         // how many of them
	source          sourceState // what the task source has ready
	counters        counters
	times           *times // of the tasks that completed in this window
	closed          bool
	resizedManually bool         // the limit was changed manually since the last window
	decisions       decisionRing // decisions
}

// New makes a pool and starts its controller. It wraps [ErrConfig] if the
// configuration is invalid.
func New(cfg Config) (*Pool, error) {
	if cfg.Optimizer == nil {
		knee, err := NewKnee(Knee{})
		if err != nil {
			return nil, err
		}
		cfg.Optimizer = knee
	}
	start := runtime.GOMAXPROCS(0)
	if f, ok := cfg.Optimizer.(Fixed); ok && f != 0 {
		start = int(f)
	}
	cfg.Start = orElse(cfg.Start, start)
	cfg.Queue = orElse(cfg.Queue, DefaultQueue)
	if err := checkLimit(cfg.Start); err != nil {
		return nil, err
	}
	switch period := cfg.Optimizer.Period(); {
	case cfg.Queue < 0 || cfg.Queue > MaxQueue:
		return nil, fmt.Errorf("%w: a queue of %d, which must be from 1 to %d", ErrConfig, cfg.Queue, MaxQueue)
	case period < MinPeriod:
		return nil, fmt.Errorf("%w: an optimizer with a period of %v, which must be at least %v", ErrConfig, period, MinPeriod)
	}
	ctx, stop := context.WithCancel(context.Background())
	p := &Pool{
		cfg:     cfg,
		epoch:   time.Now(),
		stop:    stop,
		drained: make(chan struct{}),
		limit:   cfg.Start,
		times:   new(times),
	}
	p.recent.now, p.recent.before = newSpan(), newSpan()
	p.controller.ended, p.controller.times = make(chan struct{}), new(times)
	go p.controlLoop(ctx)
	return p, nil
}

func checkLimit(limit int) error {
	if limit < 1 || limit > MaxLimit {
		return fmt.Errorf("%w: a limit of %d, which must be from 1 to %d", ErrConfig, limit, MaxLimit)
	}
	return nil
}

// now is the time on the pool's monotonic scale.
func (p *Pool) now() time.Duration { return time.Since(p.epoch) }

// Resize changes the limit manually. Running tasks are left alone: if there
// are more than the new limit, none starts until enough have ended. The optimizer
// continues from the new limit; see [Fixed] for one that does nothing. It wraps
// [ErrConfig] if the limit is invalid.
func (p *Pool) Resize(limit int) error {
	if err := checkLimit(limit); err != nil {
		return err
	}
	now := p.now()
	p.mu.Lock()
	defer p.mu.Unlock()
	p.resizedManually = true // a window with two limits is no evidence about either
	if limit != p.limit {
		p.decisions.add(DecisionRecord{At: p.epoch.Add(now), From: p.limit, To: limit, Why: "set manually"})
		p.setLimitLocked(limit, now)
	}
	return nil
}

// setLimitLocked changes the limit; mu is held.
func (p *Pool) setLimitLocked(limit int, now time.Duration) {
	p.advanceLocked(now)
	p.limit = limit
	p.startLocked(now)
	if p.cfg.TaskSource != nil && p.asking == 0 {
		p.askLocked() // its shares of the limit have changed
	}
}

// Close ends the pool: from now on tasks are refused and the task source is not asked,
// and submitters that wait for a place in the queue get [ErrClosed]; the tasks in the queue
// are run. Close returns when the last task has ended and no goroutine of the pool is
// left, or with ctx's error when ctx ends before; then tasks go on, and Close may be
// called again to wait for them. Tasks are never interrupted: one that never ends
// keeps the pool from being closed. A task must not wait for Close of its own pool.
func (p *Pool) Close(ctx context.Context) error {
	p.mu.Lock()
	if !p.closed {
		p.advanceLocked(p.now())
		p.closed = true
		p.source.ready, p.source.limited = 0, 0
		for j := p.blocked.pop(); j != nil; j = p.blocked.pop() {
			j.refused = true
			close(j.admitted)
		}
		p.drainedLocked()
	}
	p.mu.Unlock()
	p.stop()
	for _, end := range []<-chan struct{}{p.controller.ended, p.drained} {
		select {
		case <-end:
		case <-ctx.Done():
			select {
			case <-end:
				continue
			default:
			}
			s := p.Stats()
			return fmt.Errorf("close pool with %d tasks running and %d waiting: %w", s.Running, s.Waiting, context.Cause(ctx))
		}
	}
	return nil
}

// drainedLocked records the end of the last task of a closed pool; mu is held.
func (p *Pool) drainedLocked() {
	if p.closed && p.running == 0 && p.queue.n == 0 {
		select {
		case <-p.drained:
		default:
			close(p.drained)
		}
	}
}
