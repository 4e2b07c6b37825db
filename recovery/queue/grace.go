package queue

import (
	"time"

	"github.com/txmgr/txmgr/txn"
)

const (
	graceBlockLen = 253 // ids in one block: 4 KiB with what the allocator adds
	// GraceWindow is how long a block may be filled before the next is begun.
	GraceWindow = 10 * time.Millisecond
)

// Grace holds the transactions whose client completes the branches. The grace is
// the same for all, so that a queue keeps them in order, and ids that come
// within one window share one due time: an id costs its 16 bytes, and adding it a
// store. An id waits for the grace and at most a [GraceWindow] longer. Times are on the owner's
// monotonic scale. A Grace with a Wait is empty.
type Grace struct {
	Wait time.Duration // the grace

	head, tail *graceBlock
	spare      *graceBlock
	n          int
}

type graceBlock struct {
	next     *graceBlock
	due      time.Duration
	closesAt time.Duration // from then on the block takes no more
	n        int
	ids      [graceBlockLen]txn.ID
}

// Push adds an id. It reports whether the queue was empty, in which case
// the caller has to schedule its due time.
func (g *Grace) Push(id txn.ID, now time.Duration) (first bool) {
	first = g.head == nil
	if first || g.tail.n == graceBlockLen || now >= g.tail.closesAt {
		b := g.spare
		if b == nil {
			b = new(graceBlock)
		}
		g.spare = nil
		b.next, b.n, b.closesAt = nil, 0, now+GraceWindow
		b.due = b.closesAt + g.Wait
		if first {
			g.head = b
		} else {
			g.tail.next = b
		}
		g.tail = b
	}
	g.tail.ids[g.tail.n] = id
	g.tail.n++
	g.n++
	return first
}

// Due appends the ids of at most one block whose grace has expired.
func (g *Grace) Due(dst []txn.ID, now time.Duration) []txn.ID {
	b := g.head
	if b == nil || b.due > now {
		return dst
	}
	g.head = b.next
	if g.head == nil {
		g.tail = nil
	}
	g.n -= b.n
	g.spare = b
	return append(dst, b.ids[:b.n]...)
}

// Len is how many ids wait.
func (g *Grace) Len() int { return g.n }

// Next is when the first block is due; false when there is none.
func (g *Grace) Next() (time.Duration, bool) {
	if g.head == nil {
		return 0, false
	}
	return g.head.due, true
}
