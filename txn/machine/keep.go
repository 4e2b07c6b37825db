package machine

import (
	"sync/atomic"
	"time"

	"github.com/txmgr/txmgr/timeout/hashbelt"
	"github.com/txmgr/txmgr/timeout/survival"
	"github.com/txmgr/txmgr/txn"
)

// The retention is divided into steps: what finishes in one falls off together. There are retentionSteps, or more if one
// would be longer than longestStep, since by what finishes in a step there may be too many outcomes; but no more than
// mostSteps. All this is part of what the log means, and never changes.
const (
	retentionSteps = 240
	longestStep    = 15 * time.Second
	mostSteps      = 60_000
)

// kept are the finished outcomes without a hazard, on a belt. Its ring turns once in every step, so that one container has
// what finished in one step.
type kept struct {
	ring    *hashbelt.Ring[txn.ID, outcome]
	step    survival.Tick // ticks
	retain  uint64        // so many stay when others go before their time
	sharing *sharing
}

// sharing is what arenas know of snapshots.
type sharing struct {
	snapshots *atomic.Int32 // that may still be read
	epoch     uint64        // counts snapshots
}

// newKept gives an empty belt at a tick. n rotations are more than the retention, also for what finishes last in a step.
func newKept(boot Bootstrap, tick survival.Tick, snapshots *atomic.Int32) kept {
	k := kept{step: 1, retain: boot.Retain, sharing: &sharing{snapshots: snapshots}}
	n := survival.Tick(1)
	if boot.Interval > 0 && boot.Retention >= boot.Interval {
		ticks := survival.Tick(boot.Retention / boot.Interval)
		k.step = stepOf(ticks, survival.Tick(longestStep/boot.Interval))
		n = (ticks+k.step-2)/k.step + 1
	}
	// There are at least one and at most two more containers than steps, which a ring accepts.
	k.ring, _ = hashbelt.NewRing(int(n), k.turn(tick), func() hashbelt.Container[txn.ID, outcome] { return &arena{sharing: k.sharing} })
	return k
}

// stepOf is the length of a step of a retention, in ticks.
func stepOf(retention, longest survival.Tick) survival.Tick {
	step := (retention-1)/retentionSteps + 1
	return max(min(step, longest), (retention-1)/mostSteps+1)
}

// share gives the chunks as they are now. The caller has counted itself among the snapshots before.
func (k *kept) share() (all []chunk) {
	k.sharing.epoch++
	n := 0
	for _, c := range k.ring.Containers() {
		n += len(c.(*arena).chunks)
	}
	all = make([]chunk, 0, n)
	for _, c := range k.ring.Containers() {
		all = append(all, c.(*arena).chunks...)
	}
	return all
}

// turn is how often the ring has turned at a tick.
func (k *kept) turn(tick survival.Tick) survival.Tick { return tick / k.step }

// end is when what finished at a tick falls off. What earlier releases had not dropped in time goes at the next turn.
func (k *kept) end(ended survival.Tick) survival.Tick {
	return max(k.ring.Front()-(k.ring.Now()-k.turn(ended)), k.ring.Now()+1)
}

// advance drops what is over at a tick: whole containers, unread.
func (k *kept) advance(tick survival.Tick) {
	for turn := k.turn(tick); k.ring.Advance(turn) != nil; {
	}
}

// trim drops the oldest as long as enough are left without them.
func (k *kept) trim() {
	for k.tooMany() && k.ring.TakeFirst() != nil {
	}
}

// tooMany reports whether enough are left without those that fall off next. What finishes in the present step stays.
func (k *kept) tooMany() bool {
	if uint64(k.ring.Len()) < k.retain {
		return false
	}
	next, _ := k.ring.Next()
	return next < k.ring.Front() && uint64(k.ring.Len()-k.first()) >= k.retain
}

// first is how many outcomes fall off next.
func (k *kept) first() int {
	for _, c := range k.ring.Containers() {
		return c.Len()
	}
	return 0
}

// oldest is the outcome that finished first.
func (k *kept) oldest() (o outcome, ok bool) {
	for _, c := range k.ring.Containers() {
		for _, o := range c.All() {
			return o, true
		}
	}
	return nil, false
}

// keep encodes a transaction that has finished without a hazard, or whose hazard is over, onto the belt, and gives its record
// back.
func (m *Machine) keep(i uint32) {
	r := m.txs.at(i)
	m.scratch = m.appendOutcome(m.scratch[:0], r)
	// What has a record is not on the belt. At the end of time, and behind a thousand million outcomes, it is let go.
	_ = m.kept.ring.AddNew(r.id, m.scratch, m.kept.end(r.ended))
	m.drop(i)
}

// settleKept ends what is about outcomes in a command: what is closed by now goes onto the belt, and what is not any more
// comes off.
func (m *Machine) settleKept() {
	for _, i := range m.closed {
		if m.txs.at(i).closed() {
			m.keep(i)
		}
	}
	m.closed = m.closed[:0]
	if m.thawed == 0 {
		return
	}
	if r := m.txs.at(m.thawed); r.closed() {
		m.drop(m.thawed)
	} else {
		m.kept.ring.Remove(r.id)
	}
	m.thawed = 0
}

// thaw makes a record of an outcome, for one command. The belt still has the outcome: see settleKept.
func (m *Machine) thaw(id txn.ID) (i uint32, ok bool) {
	o, _, ok := m.kept.ring.Get(id)
	if !ok {
		return 0, false
	}
	v := m.image()
	v.spreadOutcome(id, o, &m.ghost)
	m.thawed, _ = m.restore(&m.ghost) // what was a record can be one
	return m.thawed, true
}
