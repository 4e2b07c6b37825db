package timeoutbench

import (
	"sync"

	"github.com/txmgr/txmgr/timeout"
	"github.com/txmgr/txmgr/timeout/hashbelt"
	"github.com/txmgr/txmgr/timeout/heap"
	"github.com/txmgr/txmgr/timeout/survival"
	"github.com/txmgr/txmgr/timeout/wheel"
)

// Contenders are the contenders of this repository: first the empty loop, then the structures, and behind two of them the designs
// that their sources replaced.
func Contenders() []Contender {
	return []Contender{
		New("null", func(shared bool) Timers[uint64] { return &null{optionalMutex: newOptionalMutex(shared)} }),
		New("survival", NewSurvival),
		New("heap", NewHeap),
		New("wheel", NewWheel),
		New("hashbelt", NewBelt),
		New("copy-scan", newCopyScan),
		New("purgatory", newPurgatory),
		New("old-purgatory", newOldPurgatory),
	}
}

// optionalMutex is a mutex, or nothing for those that have one owner.
type optionalMutex struct{ mu *sync.Mutex }

func newOptionalMutex(shared bool) optionalMutex {
	if shared {
		return optionalMutex{new(sync.Mutex)}
	}
	return optionalMutex{}
}

func (g optionalMutex) lock() {
	if g.mu != nil {
		g.mu.Lock()
	}
}

func (g optionalMutex) unlock() {
	if g.mu != nil {
		g.mu.Unlock()
	}
}

// null counts, and does nothing else.
type null struct {
	optionalMutex
	pending int
}

func (c *null) Add(ids []uint64, _ []timeout.Tick, handles []uint64) {
	for n, id := range ids {
		c.lock()
		c.pending++
		c.unlock()
		handles[n] = id
	}
}

func (c *null) Cancel(ids, handles []uint64) int {
	cancelled := 0
	for n, id := range ids {
		c.lock()
		if handles[n] == id {
			c.pending--
			cancelled++
		}
		c.unlock()
	}
	return cancelled
}

func (c *null) Step(to timeout.Tick, buf []uint64) int {
	if to < 60*second {
		return 0
	}
	n := min(c.pending, len(buf))
	c.pending -= n
	return n
}

type survivals struct {
	optionalMutex
	table *survival.Table
}

// NewSurvival makes the group table of the survival index.
func NewSurvival(shared bool) Timers[survival.Ref] {
	return &survivals{newOptionalMutex(shared), survival.NewTable(0)}
}

func (c *survivals) Add(ids []uint64, ends []timeout.Tick, handles []survival.Ref) {
	for n, id := range ids {
		c.lock()
		ref := c.table.Add(id, ends[n])
		c.unlock()
		handles[n] = ref
	}
}

func (c *survivals) Cancel(ids []uint64, handles []survival.Ref) int {
	cancelled := 0
	for n, id := range ids {
		c.lock()
		ok := c.table.Cancel(id, handles[n])
		c.unlock()
		if ok {
			cancelled++
		}
	}
	return cancelled
}

func (c *survivals) Step(to timeout.Tick, buf []uint64) int {
	c.lock()
	defer c.unlock()
	c.table.Advance(to)
	return c.table.Expire(buf)
}

type heaps struct {
	optionalMutex
	heap heap.Heap[uint64]
}

// NewHeap makes the pointer heap; a node is allocated for each entry.
func NewHeap(shared bool) Timers[*heap.Node[uint64]] {
	return &heaps{optionalMutex: newOptionalMutex(shared)}
}

func (c *heaps) Add(ids []uint64, ends []timeout.Tick, handles []*heap.Node[uint64]) {
	for n, id := range ids {
		node := &heap.Node[uint64]{Value: id}
		c.lock()
		c.heap.Insert(node, ends[n])
		c.unlock()
		handles[n] = node
	}
}

func (c *heaps) Cancel(_ []uint64, handles []*heap.Node[uint64]) int {
	cancelled := 0
	for _, node := range handles {
		c.lock()
		ok := c.heap.Remove(node)
		c.unlock()
		if ok {
			cancelled++
		}
	}
	return cancelled
}

func (c *heaps) Step(to timeout.Tick, buf []uint64) int {
	c.lock()
	defer c.unlock()
	for n := range buf {
		first := c.heap.Peek()
		if first == nil || first.End() > to {
			return n
		}
		buf[n] = c.heap.Pop().Value
	}
	return len(buf)
}

type wheels struct {
	optionalMutex
	wheel *wheel.Wheel[uint64]
}

// NewWheel makes the hierarchical wheel; a task is allocated for each entry.
func NewWheel(shared bool) Timers[*wheel.Task[uint64]] {
	return &wheels{newOptionalMutex(shared), wheel.New[uint64](0, 0)}
}

func (c *wheels) Add(ids []uint64, ends []timeout.Tick, handles []*wheel.Task[uint64]) {
	for n, id := range ids {
		task := &wheel.Task[uint64]{Value: id}
		c.lock()
		c.wheel.Add(task, ends[n])
		c.unlock()
		handles[n] = task
	}
}

func (c *wheels) Cancel(_ []uint64, handles []*wheel.Task[uint64]) int {
	cancelled := 0
	for _, task := range handles {
		c.lock()
		ok := c.wheel.Cancel(task)
		c.unlock()
		if ok {
			cancelled++
		}
	}
	return cancelled
}

func (c *wheels) Step(to timeout.Tick, buf []uint64) int {
	c.lock()
	defer c.unlock()
	c.wheel.Advance(to)
	for n := range buf {
		task := c.wheel.Pop()
		if task == nil {
			return n
		}
		buf[n] = task.Value
	}
	return len(buf)
}

// containers of a belt: one for each tick up to the Horizon, and more.
const containers = 8192

type belts struct {
	optionalMutex
	ring *hashbelt.Ring[uint64, struct{}]
	due  []uint64 // of the container that has fallen off
	gone int      // how many of due are taken
}

// NewBelt makes a hashbelt without a clock. An entry has no handle: it is found by its id.
func NewBelt(shared bool) Timers[struct{}] {
	ring, err := hashbelt.NewRing(containers, 0, hashbelt.NewMapList[uint64, struct{}])
	if err != nil {
		panic(err) // the number is a constant
	}
	return &belts{optionalMutex: newOptionalMutex(shared), ring: ring}
}

func (c *belts) Add(ids []uint64, ends []timeout.Tick, _ []struct{}) {
	for n, id := range ids {
		c.lock()
		_ = c.ring.Add(id, struct{}{}, ends[n]) // an entry that is not on the ring fails to be cancelled, or to end
		c.unlock()
	}
}

func (c *belts) Cancel(ids []uint64, _ []struct{}) int {
	cancelled := 0
	for _, id := range ids {
		c.lock()
		_, ok := c.ring.Remove(id)
		c.unlock()
		if ok {
			cancelled++
		}
	}
	return cancelled
}

func (c *belts) Step(to timeout.Tick, buf []uint64) int {
	c.lock()
	defer c.unlock()
	n := 0
	for n < len(buf) {
		if c.gone == len(c.due) {
			fallen := c.ring.Advance(to)
			if fallen == nil {
				break
			}
			c.due, c.gone = c.due[:0], 0
			for id := range fallen.All() {
				c.due = append(c.due, id)
			}
		}
		k := copy(buf[n:], c.due[c.gone:])
		n += k
		c.gone += k
	}
	return n
}
