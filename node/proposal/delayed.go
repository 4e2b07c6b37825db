package proposal

import (
	"time"

	"github.com/txmgr/txmgr/txn/machine"
)

// maxDelay is how long a command whose caller does not wait may be in the queue before it causes
// an entry of its own.
const maxDelay = 5 * time.Millisecond

// requested is what the next entry is wanted for, beside the commands whose callers wait.
type requested struct {
	tick    bool      // an entry, even without a command
	delayed bool      // the delayed commands: their time is over
	timer   bool      // a timer is running that will request these
	last    *proposal // the delayed command that was put last
}

// ProposeDelayed puts a command whose result no caller waits for: it leaves with the next entry,
// or after 5 ms. When the queue is closed to callers meanwhile, it is lost.
func (q *Queue) ProposeDelayed(c machine.Command) error {
	p := &proposal{done: make(chan proposalResult, 1), delayed: true, pending: &q.stats.pending}
	q.stats.pending.Add(1)
	if err := q.put(0, c, p); err != nil {
		p.finish()
		return err
	}
	return nil
}

// delayLocked records that the last command of a batch is a delayed one. The caller holds mu.
func (q *Queue) delayLocked(b *batch, p *proposal) {
	b.delayed++
	q.requested.last = p
	if q.requested.timer {
		return
	}
	q.requested.timer = true
	time.AfterFunc(maxDelay, func() {
		q.mu.Lock()
		q.requested.timer, q.requested.delayed = false, len(q.batches) > 0
		q.mu.Unlock()
		q.signal()
	})
}

// Flush has the delayed commands proposed at once, and returns when they are applied, or after
// timeout.
func (q *Queue) Flush(timeout time.Duration) {
	q.mu.Lock()
	last := q.requested.last
	q.requested.delayed = len(q.batches) > 0
	q.mu.Unlock()
	if last == nil {
		return
	}
	q.signal()
	timer := time.NewTimer(timeout)
	defer timer.Stop()
	select {
	case <-last.done:
		last.done <- proposalResult{} // for another caller
	case <-timer.C:
	}
}
