package proposal

import (
	"fmt"
	"sync/atomic"

	"github.com/txmgr/txmgr/raftfsm"
	"github.com/txmgr/txmgr/txn"
	"github.com/txmgr/txmgr/txn/machine"
)

// batch is the content of one log entry.
type batch struct {
	buf         []byte
	callers     []*proposal
	commands    int
	hasDecision bool   // contains a commit; for the crash tests
	term        uint64 // in which it is proposed
}

// appendCommandLocked appends a command to the open batch, or to a new one when the entry would
// become too large. The caller holds mu.
func (b *Queue) appendCommandLocked(c machine.Command) (*batch, error) {
	l := b.openBatchLocked()
	if l == nil {
		return nil, errQueueFull
	}
	start := len(l.buf)
	l.buf = raftfsm.AppendCommand(l.buf, c)
	if len(l.buf) <= raftfsm.MaxEntry {
		return l, nil
	}
	command := l.buf[start:]
	l.buf = l.buf[:start]
	if len(command) > raftfsm.MaxEntry-raftfsm.HeaderSize {
		return nil, fmt.Errorf("%w: the call has %d bytes; at most %d", txn.ErrInvalid, len(command), raftfsm.MaxEntry-raftfsm.HeaderSize)
	}
	if len(b.queue) == maxQueuedBatches {
		return nil, errQueueFull
	}
	l = b.newBatchLocked()
	l.buf = append(l.buf, command...)
	return l, nil
}

// openBatchLocked returns the open batch; nil when the queue is full. The caller holds mu.
func (b *Queue) openBatchLocked() *batch {
	if n := len(b.queue); n > 0 {
		if l := b.queue[n-1]; l.commands < maxBatch && len(l.buf) < maxBatchBytes {
			return l
		}
		if n == maxQueuedBatches {
			return nil
		}
	}
	return b.newBatchLocked()
}

// newBatchLocked appends a new batch to the queue. Its buffer is always new: raft and the
// decoded entry may refer to the old ones. The caller holds mu.
func (b *Queue) newBatchLocked() *batch {
	l := &batch{buf: raftfsm.AppendHeader(make([]byte, 0, b.last.bytes))}
	b.queue = append(b.queue, l)
	return l
}

// proposal is one caller that waits for the result of its command.
type proposal struct {
	done   chan proposalResult // capacity 1: sending an answer never blocks
	onDone func()              // called before the answer, whether or not the caller still waits; may be nil

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
	for _, l := range batches {
		l.answer(nil, fmt.Errorf("%w: this node does not lead any more", txn.ErrUnavailable))
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
