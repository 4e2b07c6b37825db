package recovery

import "sync"

// Priorities handed to a [Pool]; smaller goes first.
const (
	PriorityCommit   = iota // commits, and prepares for which a client waits
	PriorityRollback        // rollbacks
	PriorityProbe           // what a sweep found
)

// Pool runs tasks on a limited number of workers.
type Pool interface {
	// TrySubmit hands a task over to be run once, soon, on another goroutine; or
	// it refuses. It never blocks, and never runs the task itself. Called from
	// within a task it must be able to accept one, by queueing it: the worker is
	// about to be free. The order of what is queued may follow the priority.
	// Safe for concurrent use.
	TrySubmit(priority int, task func()) bool
}

// fixedPool is a [Pool] of constant size. Workers are goroutines that exist only
// while there is something to do. Its queue is as long as it has workers and
// served in order: precedence is decided before, and by so short a queue no
// urgent task is kept back for long, nor any other for ever.
type fixedPool struct {
	size int

	mu      sync.Mutex // guards running and queue
	running int
	queue   fifo[func()]
}

func (p *fixedPool) TrySubmit(_ int, task func()) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case p.running < p.size:
		p.running++
		go p.work(task)
	case p.queue.len() < p.size:
		p.queue.push(task)
	default:
		return false
	}
	return true
}

func (p *fixedPool) work(task func()) {
	for task != nil {
		task()
		task = p.next()
	}
}

func (p *fixedPool) next() func() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.queue.len() > 0 {
		return p.queue.pop()
	}
	p.running--
	return nil
}
