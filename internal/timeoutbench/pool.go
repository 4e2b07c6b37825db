package timeoutbench

import (
	"math/rand/v2"
	"time"

	"github.com/txmgr/txmgr/timeout"
)

// pool is a contender with the entries that are pending in it, or those of one goroutine.
type pool[H any] struct {
	timers  Timers[H]
	ahead   func(*rand.Rand) timeout.Tick
	rand    *rand.Rand
	ids     []uint64 // pending
	handles []H      // of ids

	round      []uint64
	ends       []timeout.Tick
	held       []H
	last, step uint64 // the id that was given last, and the distance to the next
	lost       int
}

// newPool is for entries that are added and cancelled round at a time. The pools of several goroutines have different
// numbers, from 0, and share out the ids.
func newPool[H any](timers Timers[H], l Load, pending, round, number, pools int) *pool[H] {
	return &pool[H]{
		timers: timers, ahead: l.Ahead, rand: rand.New(rand.NewPCG(1, uint64(number))),
		ids: make([]uint64, 0, pending+round), handles: make([]H, 0, pending+round),
		round: make([]uint64, round), ends: make([]timeout.Tick, round), held: make([]H, round),
		last: uint64(number), step: uint64(pools),
	}
}

// fill adds entries until so many are pending.
func (p *pool[H]) fill(pending int) {
	for len(p.ids) < pending {
		p.draw(min(pending-len(p.ids), cap(p.round)))
		p.add()
	}
}

// churn replaces at least so many entries, drawn at random.
func (p *pool[H]) churn(entries int) {
	for done := 0; done < entries; done += len(p.round) {
		p.draw(cap(p.round))
		p.add()
		p.pick()
		p.cancel()
	}
}

// draw prepares n entries to be added.
func (p *pool[H]) draw(n int) {
	p.round, p.ends, p.held = p.round[:n], p.ends[:n], p.held[:n]
	for n := range p.round {
		p.last += p.step
		p.round[n] = p.last
		p.ends[n] = p.ahead(p.rand)
	}
}

func (p *pool[H]) add() {
	p.timers.Add(p.round, p.ends, p.held)
	p.ids = append(p.ids, p.round...)
	p.handles = append(p.handles, p.held...)
}

// pick prepares as many entries as a round has to be cancelled.
func (p *pool[H]) pick() {
	for n := range p.round {
		k, last := p.rand.IntN(len(p.ids)), len(p.ids)-1
		p.round[n], p.held[n] = p.ids[k], p.handles[k]
		p.ids[k], p.handles[k] = p.ids[last], p.handles[last]
		p.ids, p.handles = p.ids[:last], p.handles[:last]
	}
}

func (p *pool[H]) cancel() {
	p.lost += len(p.round) - p.timers.Cancel(p.round, p.held)
}

// timed returns the processor time of what do does to the contender: of the thread, or of the process if it has
// goroutines of its own.
func (p *pool[H]) timed(do func()) time.Duration {
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

func (p *pool[H]) flush() {
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
