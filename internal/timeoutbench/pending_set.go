package timeoutbench

import (
	"math/rand/v2"
	"time"

	"github.com/txmgr/txmgr/timeout"
)

// pendingSet is a contender with the entries that are pending in it, or those of one goroutine.
type pendingSet[H any] struct {
	timers  Timers[H]
	ahead   func(*rand.Rand) timeout.Tick
	rand    *rand.Rand
	ids     []uint64 // pending
	handles []H      // of ids

	round        []uint64
	ends         []timeout.Tick
	roundHandles []H
	last, step   uint64 // the id that was given last, and the distance to the next
	lost         int
}

// newPendingSet is for entries that are added and cancelled round at a time. The sets of several
// goroutines have different numbers, from 0, and share out the ids.
func newPendingSet[H any](timers Timers[H], l Load, pending, round, number, pools int) *pendingSet[H] {
	return &pendingSet[H]{
		timers: timers, ahead: l.Ahead, rand: rand.New(rand.NewPCG(1, uint64(number))),
		ids: make([]uint64, 0, pending+round), handles: make([]H, 0, pending+round),
		round: make([]uint64, round), ends: make([]timeout.Tick, round), roundHandles: make([]H, round),
		last: uint64(number), step: uint64(pools),
	}
}

// fill adds entries until so many are pending.
func (p *pendingSet[H]) fill(pending int) {
	for len(p.ids) < pending {
		p.draw(min(pending-len(p.ids), cap(p.round)))
		p.add()
	}
}

// churn replaces at least so many entries, drawn at random.
func (p *pendingSet[H]) churn(entries int) {
	for done := 0; done < entries; done += len(p.round) {
		p.draw(cap(p.round))
		p.add()
		p.pick()
		p.cancel()
	}
}

// draw draws n entries to be added.
func (p *pendingSet[H]) draw(n int) {
	p.round, p.ends, p.roundHandles = p.round[:n], p.ends[:n], p.roundHandles[:n]
	for n := range p.round {
		p.last += p.step
		p.round[n] = p.last
		p.ends[n] = p.ahead(p.rand)
	}
}

func (p *pendingSet[H]) add() {
	p.timers.Add(p.round, p.ends, p.roundHandles)
	p.ids = append(p.ids, p.round...)
	p.handles = append(p.handles, p.roundHandles...)
}

// pick draws the entries of a round to be cancelled.
func (p *pendingSet[H]) pick() {
	for n := range p.round {
		k, last := p.rand.IntN(len(p.ids)), len(p.ids)-1
		p.round[n], p.roundHandles[n] = p.ids[k], p.handles[k]
		p.ids[k], p.handles[k] = p.ids[last], p.handles[last]
		p.ids, p.handles = p.ids[:last], p.handles[:last]
	}
}

func (p *pendingSet[H]) cancel() {
	p.lost += len(p.round) - p.timers.Cancel(p.round, p.roundHandles)
}

// timed returns the processor time of do on the contender: of the thread, or of the process if the
// contender has goroutines of its own.
func (p *pendingSet[H]) timed(do func()) time.Duration {
	f, ok := p.timers.(Flusher)
	if !ok {
		return ThreadCPU(do)
	}
	f.Flush()
	start := ProcessCPU()
	do()
	f.Flush()
	return ProcessCPU() - start
}

func (p *pendingSet[H]) flush() {
	if f, ok := p.timers.(Flusher); ok {
		f.Flush()
	}
}

// stop ends a contender that has to be ended.
func stop(timers any) {
	if s, ok := timers.(Stopper); ok {
		s.Stop()
	}
}
