package machine

import (
	"sync/atomic"
	"time"

	"github.com/txmgr/txmgr/timeout/hashbelt"
	"github.com/txmgr/txmgr/timeout/survival"
	"github.com/txmgr/txmgr/txn"
)

// The retention is divided into steps: all that finishes in one step is dropped together. There
// are retentionSteps, or more if one would be longer than longestStep, since what finishes in
// one step may be too many outcomes; but no more than mostSteps. All this is part of the
// meaning of the log, and never changes.
const (
	retentionSteps = 240
	maxStep        = 15 * time.Second
	maxSteps       = 60_000
)

// retained are the finished outcomes without a heuristic outcome, on a hashbelt. Its ring
// rotates once in every step, so that one container has what finished in one step.
type retained struct {
	ring    *hashbelt.Ring[txn.ID, outcome]
	step    survival.Tick // ticks
	limit   uint64        // so many stay when others are dropped before their time
	sharing *sharing
}

// sharing is what arenas know of snapshots.
type sharing struct {
	snapshots *atomic.Int32 // that may still be read
	epoch     uint64        // counts snapshots
}

// newRetained returns an empty belt at a tick. n rotations are more than the retention, also
// for what finishes last in a step.
func newRetained(boot Bootstrap, tick survival.Tick, snapshots *atomic.Int32) retained {
	k := retained{step: 1, limit: boot.Retain, sharing: &sharing{snapshots: snapshots}}
	n := survival.Tick(1)
	if boot.Interval > 0 && boot.Retention >= boot.Interval {
		ticks := survival.Tick(boot.Retention / boot.Interval)
		k.step = stepLength(ticks, survival.Tick(maxStep/boot.Interval))
		n = (ticks+k.step-2)/k.step + 1
	}
	// There are at least one and at most two more containers than steps, which a ring accepts.
	k.ring, _ = hashbelt.NewRing(int(n), k.rotationAt(tick), func() hashbelt.Container[txn.ID, outcome] { return &arena{sharing: k.sharing} })
	return k
}

// stepLength is the length of a step of a retention, in ticks.
func stepLength(retention, longest survival.Tick) survival.Tick {
	step := (retention-1)/retentionSteps + 1
	return max(min(step, longest), (retention-1)/maxSteps+1)
}

// snapshotChunks returns the present chunks. The caller has counted itself among the snapshots
// before.
func (k *retained) snapshotChunks() (all []chunk) {
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

// rotationAt is how often the ring has rotated at a tick.
func (k *retained) rotationAt(tick survival.Tick) survival.Tick { return tick / k.step }

// dropAt is the rotation at which an outcome that finished at a tick is dropped. Outcomes that
// earlier releases had not dropped in time are dropped at the next rotation.
func (k *retained) dropAt(ended survival.Tick) survival.Tick {
	return max(k.ring.Front()-(k.ring.Now()-k.rotationAt(ended)), k.ring.Now()+1)
}

// advance drops what is due at a tick: whole containers, unread.
func (k *retained) advance(tick survival.Tick) {
	for turn := k.rotationAt(tick); k.ring.Advance(turn) != nil; {
	}
}

// trim drops the oldest step as long as enough outcomes are left without it.
func (k *retained) trim() {
	for k.overLimit() && k.ring.TakeFirst() != nil {
	}
}

// overLimit reports whether enough outcomes are left without those that are dropped next. What
// finishes in the present step stays.
func (k *retained) overLimit() bool {
	if uint64(k.ring.Len()) < k.limit {
		return false
	}
	next, _ := k.ring.Next()
	return next < k.ring.Front() && uint64(k.ring.Len()-k.dueCount()) >= k.limit
}

// dueCount is how many outcomes are dropped next.
func (k *retained) dueCount() int {
	for _, c := range k.ring.Containers() {
		return c.Len()
	}
	return 0
}

// oldest is the outcome that finished first.
func (k *retained) oldest() (o outcome, ok bool) {
	for _, c := range k.ring.Containers() {
		for _, o := range c.All() {
			return o, true
		}
	}
	return nil, false
}

// retain encodes onto the belt a transaction that has finished without a heuristic outcome, or
// whose heuristic outcome was forgotten, and frees its record.
func (m *Machine) retain(i uint32) {
	r := m.txs.At(i)
	m.scratch = m.appendOutcome(m.scratch[:0], r)
	// What has a record is not on the belt. At the end of time, and after a thousand million
	// outcomes, it is dropped.
	_ = m.retained.ring.AddNew(r.id, m.scratch, m.retained.dropAt(r.ended))
	m.drop(i)
}

// flushRetained completes the changes of outcomes in a command: what has become final goes onto
// the belt, and what is not final any more is taken off.
func (m *Machine) flushRetained() {
	for _, i := range m.toRetain {
		if m.txs.At(i).isFinal() {
			m.retain(i)
		}
	}
	m.toRetain = m.toRetain[:0]
	if m.loaded == 0 {
		return
	}
	if r := m.txs.At(m.loaded); r.isFinal() {
		m.drop(m.loaded)
	} else {
		m.retained.ring.Remove(r.id)
	}
	m.loaded = 0
}

// loadRetained makes a record of an outcome, for one command. The belt still has the outcome:
// see flushRetained.
func (m *Machine) loadRetained(id txn.ID) (i uint32, ok bool) {
	o, _, ok := m.retained.ring.Get(id)
	if !ok {
		return 0, false
	}
	v := m.stateView()
	v.expandOutcome(id, o, &m.decodeBuf)
	m.loaded, _ = m.restore(&m.decodeBuf) // an outcome that was a record always fits into one
	return m.loaded, true
}
