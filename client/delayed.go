package client

import (
	"time"

	txmgrv1 "github.com/txmgr/txmgr/api/txmgr/v1"
)

// maxDelay is how long a command whose caller does not wait may be in the queue before it causes
// a message of its own.
const maxDelay = 5 * time.Millisecond

// delayedCalls are the calls of a pipeline whose callers do not wait.
type delayedCalls struct {
	queued     int           // of the queue, those that cause no message yet
	timer      bool          // a timer is running that will set queued to 0
	unanswered int           // in the queue and on their way
	flushed    chan struct{} // made by flush: closed when unanswered is 0; from then on nothing is delayed
}

// sendDelayed sends a command whose result the caller does not need, with the next one that is
// sent, or after 5 ms. There is one try.
func (p *pipeline) sendDelayed(cmd *txmgrv1.Command, weight int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	d := &p.delayed
	if p.closed || d.flushed != nil {
		return
	}
	p.putLocked(&call{command: cmd, weight: weight, delayed: true, done: make(chan struct{}, 1)})
	d.queued++
	d.unanswered++
	if d.timer {
		return
	}
	d.timer = true
	time.AfterFunc(maxDelay, func() {
		p.mu.Lock()
		d.queued, d.timer = 0, false
		p.mu.Unlock()
		p.signal()
	})
}

// finishedLocked records that a call has ended.
func (d *delayedCalls) finishedLocked(k *call) {
	if !k.delayed {
		return
	}
	if d.unanswered--; d.unanswered == 0 && d.flushed != nil {
		close(d.flushed)
	}
}

// flush sends the delayed calls and waits for their replies, for closeGrace at most.
func (p *pipeline) flush() {
	p.mu.Lock()
	d := &p.delayed
	if d.unanswered == 0 || d.flushed != nil {
		p.mu.Unlock()
		return
	}
	flushed := make(chan struct{})
	d.flushed, d.queued = flushed, 0
	p.mu.Unlock()
	p.signal()
	timer := time.NewTimer(closeGrace)
	defer timer.Stop()
	select {
	case <-flushed:
	case <-timer.C:
	}
}
