package timeoutbench

import (
	"container/heap"
	"container/list"

	"github.com/txmgr/txmgr/timeout"
)

// purgeAfter is how many completed requests an old purgatory keeps before it purges. The source
// counts the pending ones as well, and leaves the number to the user; among more pending requests
// than that it would purge at each.
const purgeAfter = 10_000

// oldPurgatory is the request purgatory that Kafka had before its timing wheel, as its redesign
// describes it: every request stands in a delay queue, which is a binary heap of all of them, and
// in the linked list of the watchers of its key. A completed request is not taken out: it goes when
// the queue or a check of its key reaches it. When there are too many, a purge goes through the
// queue and all lists. In the source a reaper thread does that; here it counts for the completing
// call.
type oldPurgatory struct {
	optionalMutex
	queue               delayQueue
	watchers            map[uint64]*list.List // of *delayed, by key; the key of a request is its id
	completedSincePurge int                   // completed since the last purge
}

type delayed struct {
	id    uint64
	end   timeout.Tick
	ready bool // its condition holds
	done  bool
}

func newOldPurgatory(shared bool) Timers[*delayed] {
	return &oldPurgatory{optionalMutex: newOptionalMutex(shared), watchers: make(map[uint64]*list.List)}
}

func (c *oldPurgatory) Add(ids []uint64, ends []timeout.Tick, handles []*delayed) {
	for n, id := range ids {
		r := &delayed{id: id, end: ends[n]}
		c.lock()
		watchers := c.watchers[id]
		if watchers == nil {
			watchers = list.New()
			c.watchers[id] = watchers
		}
		watchers.PushBack(r)
		heap.Push(&c.queue, r)
		c.unlock()
		handles[n] = r
	}
}

func (c *oldPurgatory) Cancel(ids []uint64, handles []*delayed) int {
	completed := 0
	for n, r := range handles {
		c.lock()
		r.ready = true
		completed += c.check(ids[n])
		c.unlock()
	}
	return completed
}

// check tries the watchers of a key, and takes out of its list those that are completed, now or
// before.
func (c *oldPurgatory) check(key uint64) (completed int) {
	watchers := c.watchers[key]
	if watchers == nil {
		return 0
	}
	for e := watchers.Front(); e != nil; {
		next := e.Next()
		r := e.Value.(*delayed)
		if r.ready && !r.done {
			r.done = true
			completed++
		}
		if r.done {
			watchers.Remove(e)
		}
		e = next
	}
	if watchers.Len() == 0 {
		delete(c.watchers, key)
	}
	c.complete(completed)
	return completed
}

// complete counts the completed requests that were kept, and purges if there are too many.
func (c *oldPurgatory) complete(requests int) {
	if c.completedSincePurge += requests; c.completedSincePurge < purgeAfter {
		return
	}
	c.completedSincePurge = 0
	pending := c.queue[:0]
	for _, r := range c.queue {
		if !r.done {
			pending = append(pending, r)
		}
	}
	clear(c.queue[len(pending):])
	c.queue = pending
	heap.Init(&c.queue)
	for key, watchers := range c.watchers {
		for e := watchers.Front(); e != nil; {
			next := e.Next()
			if e.Value.(*delayed).done {
				watchers.Remove(e)
			}
			e = next
		}
		if watchers.Len() == 0 {
			delete(c.watchers, key)
		}
	}
}

func (c *oldPurgatory) Step(to timeout.Tick, buf []uint64) int {
	c.lock()
	defer c.unlock()
	n := 0
	for n < len(buf) && len(c.queue) > 0 && c.queue[0].end <= to {
		if r := heap.Pop(&c.queue).(*delayed); !r.done {
			r.done = true
			buf[n] = r.id
			n++
			c.complete(1)
		}
	}
	return n
}

// delayQueue is a heap of requests, of which the first ends before all others.
type delayQueue []*delayed

func (q delayQueue) Len() int           { return len(q) }
func (q delayQueue) Less(i, k int) bool { return q[i].end < q[k].end }
func (q delayQueue) Swap(i, k int)      { q[i], q[k] = q[k], q[i] }
func (q *delayQueue) Push(x any)        { *q = append(*q, x.(*delayed)) }

func (q *delayQueue) Pop() any {
	last := len(*q) - 1
	r := (*q)[last]
	(*q)[last] = nil
	*q = (*q)[:last]
	return r
}
