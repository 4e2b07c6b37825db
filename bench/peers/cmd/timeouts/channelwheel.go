package main

import (
	"container/list"

	"github.com/txmgr/txmgr/internal/timeoutbench"
	"github.com/txmgr/txmgr/timeout"
)

// channelWheel is the wheel that many libraries have: a goroutine owns a ring of lists, and
// receives additions and cancellations on channels. An entry that ends later than one turn of the
// ring counts its turns. Those libraries are driven by a ticker; this one has a channel in its
// place, so that its caller controls the time.
type channelWheel struct {
	add    chan added
	cancel chan cancelled
	tick   chan chan []uint64
	sync   chan chan struct{}
	stop   chan struct{}

	at    timeout.Tick
	due   []uint64
	taken int // of due
}

type added struct {
	id    uint64
	after timeout.Tick
}

type cancelled struct {
	id   uint64
	hits *int
}

type slotPosition struct {
	element *list.Element
	slot    int
}

type wheelEntry struct {
	id    uint64
	turns timeout.Tick // that remain
}

const slots = 3600

func newChannelWheel(bool) timeoutbench.Timers[struct{}] {
	c := &channelWheel{
		add: make(chan added), cancel: make(chan cancelled), tick: make(chan chan []uint64), sync: make(chan chan struct{}),
		stop: make(chan struct{}),
	}
	go c.run()
	return c
}

func (c *channelWheel) run() {
	ring := make([]list.List, slots)
	places := make(map[uint64]slotPosition)
	at := 0
	for {
		select {
		case a := <-c.add:
			slot := (at + int(a.after)) % slots
			places[a.id] = slotPosition{ring[slot].PushBack(&wheelEntry{a.id, (a.after - 1) / slots}), slot}
		case a := <-c.cancel:
			if p, ok := places[a.id]; ok {
				ring[p.slot].Remove(p.element)
				delete(places, a.id)
				*a.hits++
			}
		case answer := <-c.tick:
			at = (at + 1) % slots
			var due []uint64
			for e := ring[at].Front(); e != nil; {
				next := e.Next()
				if t := e.Value.(*wheelEntry); t.turns > 0 {
					t.turns--
				} else {
					due = append(due, t.id)
					ring[at].Remove(e)
					delete(places, t.id)
				}
				e = next
			}
			answer <- due
		case done := <-c.sync:
			close(done)
		case <-c.stop:
			return
		}
	}
}

// Add is called before the first tick: ends are delays then.
func (c *channelWheel) Add(ids []uint64, ends []timeout.Tick, _ []struct{}) {
	for n, id := range ids {
		c.add <- added{id, ends[n]}
	}
}

func (c *channelWheel) Cancel(ids []uint64, _ []struct{}) int {
	hits := 0
	for _, id := range ids {
		c.cancel <- cancelled{id, &hits}
	}
	c.Flush() // the goroutine does not use hits any more
	return hits
}

func (c *channelWheel) Step(to timeout.Tick, buf []uint64) int {
	for c.taken == len(c.due) && c.at < to {
		answer := make(chan []uint64)
		c.tick <- answer
		c.due, c.taken = <-answer, 0
		c.at++
	}
	n := copy(buf, c.due[c.taken:])
	c.taken += n
	return n
}

// Flush includes the time of the whole process, half of which is the goroutine's.
func (c *channelWheel) Flush() {
	done := make(chan struct{})
	c.sync <- done
	<-done
}

func (c *channelWheel) Stop() { close(c.stop) }
