package adaptive

import "time"

// job is a task on its way through a pool. Guarded by Pool.mu until it is given to a
// worker.
type job struct {
	task       Task
	arrived    time.Duration
	in         *jobQueue // where it waits, if it does
	prev, next *job

	admitted chan struct{} // closed when a submitter has not to wait for a place any more
	refused  bool          // because the pool was closed
	done     chan struct{} // closed when the task has ended, if a submitter waits for it
	err      error         // the task's error
}

// jobQueue is a queue from which any job can leave. The zero value is empty.
type jobQueue struct {
	first, last *job
	n           int
}

func (l *jobQueue) push(j *job) {
	j.in, j.prev, j.next = l, l.last, nil
	if l.last == nil {
		l.first = j
	} else {
		l.last.next = j
	}
	l.last = j
	l.n++
}

// pop takes the first job, nil if there is none.
func (l *jobQueue) pop() *job {
	j := l.first
	if j != nil {
		l.remove(j)
	}
	return j
}

// remove takes a job out; false if it is not in this queue.
func (l *jobQueue) remove(j *job) bool {
	if j.in != l {
		return false
	}
	if j.prev == nil {
		l.first = j.next
	} else {
		j.prev.next = j.next
	}
	if j.next == nil {
		l.last = j.prev
	} else {
		j.next.prev = j.prev
	}
	j.in, j.prev, j.next = nil, nil, nil
	l.n--
	return true
}

// newJobLocked returns an empty job; mu is held.
func (p *Pool) newJobLocked(task Task, now time.Duration) *job {
	j := p.free
	if j == nil {
		j = &job{}
	} else {
		p.free, j.next = j.next, nil
		p.spare--
	}
	j.task, j.arrived = task, now
	return j
}

// maxSpare is how many jobs are kept for reuse.
const maxSpare = 2 * DefaultQueue

// recycleLocked takes back a job, unless its submitter keeps it; mu is held.
func (p *Pool) recycleLocked(j *job) {
	if j.done != nil || j.admitted != nil || p.spare >= maxSpare {
		return
	}
	*j = job{next: p.free}
	p.free = j
	p.spare++
}

// takeLocked returns the next task, nil if there is none; mu is held.
func (p *Pool) takeLocked() *job {
	j := p.queue.pop()
	if j != nil {
		p.admitLocked()
	}
	return j
}

// admitLocked gives a place in the queue to the first submitter that waits for one; mu is held.
func (p *Pool) admitLocked() {
	if b := p.blocked.pop(); b != nil {
		p.queue.push(b)
		p.counters.arrived++
		close(b.admitted)
	}
}
