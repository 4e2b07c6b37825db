package proposal

import (
	"context"
	"fmt"
	"sync/atomic"

	"github.com/txmgr/txmgr/raftfsm"
	"github.com/txmgr/txmgr/txn"
	"github.com/txmgr/txmgr/txn/machine"
)

// batch is the content of one log entry: the commands of many callers (group commit).
type batch struct {
	buf         []byte
	callers     []*proposal
	commands    int
	delayed     int    // of the commands, those whose callers do not wait
	hasDecision bool   // contains a commit; for the crash tests
	term        uint64 // in which it is proposed
	answering   bool   // guarded by mu: its callers get their answers, from now on without mu
}

// appendCommandLocked appends a command to the open batch, or to a new one when the entry would
// become too large. The caller holds mu.
func (q *Queue) appendCommandLocked(c machine.Command) (*batch, error) {
	b := q.openBatchLocked()
	if b == nil {
		return nil, errQueueFull
	}
	start := len(b.buf)
	b.buf = raftfsm.AppendCommand(b.buf, c)
	if len(b.buf) <= raftfsm.MaxEntry {
		return b, nil
	}
	command := b.buf[start:]
	b.buf = b.buf[:start]
	if len(command) > raftfsm.MaxEntry-raftfsm.HeaderSize {
		return nil, fmt.Errorf("%w: the call has %d bytes; at most %d", txn.ErrInvalid, len(command), raftfsm.MaxEntry-raftfsm.HeaderSize)
	}
	if len(q.batches) == maxQueuedBatches {
		return nil, errQueueFull
	}
	b = q.newBatchLocked()
	b.buf = append(b.buf, command...)
	return b, nil
}

// openBatchLocked returns the open batch; nil when the queue is full. The caller holds mu.
func (q *Queue) openBatchLocked() *batch {
	if n := len(q.batches); n > 0 {
		if b := q.batches[n-1]; b.commands < maxBatch && len(b.buf) < maxBatchBytes {
			return b
		}
		if n == maxQueuedBatches {
			return nil
		}
	}
	return q.newBatchLocked()
}

// newBatchLocked appends a new batch to the queue. Its buffer is always new: raft and the
// decoded entry may refer to the old ones. The caller holds mu.
func (q *Queue) newBatchLocked() *batch {
	b := &batch{buf: raftfsm.AppendHeader(make([]byte, 0, q.inflight.last.bytes))}
	q.batches = append(q.batches, b)
	return b
}

// proposal is one caller that wants the result of its command.
type proposal struct {
	done   chan proposalResult         // capacity 1: sending an answer never blocks; nil for a caller without a goroutine
	answer func(machine.Result, error) // of a caller without a goroutine; nil when it was called
	ctx    context.Context             // of a caller without a goroutine
	onDone func()                      // called before the answer, whether or not the caller still waits; may be nil

	delayed bool          // its caller does not wait
	pending *atomic.Int64 // of the queue
}

type proposalResult struct {
	result machine.Result
	err    error
}

// finish records that the proposal has its answer, and calls onDone. It is called once.
func (p *proposal) finish() {
	p.pending.Add(-1)
	if p.onDone != nil {
		p.onDone()
		p.onDone = nil
	}
}

// rejectBatches answers callers whose commands were not proposed.
func rejectBatches(batches []*batch) {
	for _, b := range batches {
		b.answer(nil, fmt.Errorf("%w: this node does not lead any more", txn.ErrUnavailable))
	}
}

const (
	// maxBatch and maxBatchBytes close a batch; its last command may exceed
	// the bytes, but never the entry's own limit.
	maxBatch      = 4096
	maxBatchBytes = 1 << 20
	// maxYields is how often other goroutines may run before an entry is proposed. In a
	// busy process one yield can take milliseconds.
	maxYields = 3
	// maxQueuedBatches limits the queue: when this many batches wait, further commands are
	// rejected.
	maxQueuedBatches = 64
)
