package txntest

import (
	"slices"
	"time"

	"github.com/txmgr/txmgr/txn"
	"github.com/txmgr/txmgr/txn/machine"
)

// silences is how many rotations of a belt a session lives through when nothing is
// heard of it, as it is in a node: it expires at most one of them, an eighth of its
// TTL, late.
const silences = 8

// belt are the open sessions of one TTL.
type belt struct {
	rotate time.Time             // the next rotation
	left   map[txn.SessionID]int // after how many rotations a session falls off
}

// hearLocked moves a session to the front of its belt. The first one of its TTL sets
// the belt going.
func (m *Manager) hearLocked(id txn.SessionID, ttl time.Duration) {
	b := m.belts[ttl]
	if b == nil {
		b = &belt{rotate: time.Now().Add(ttl / silences), left: map[txn.SessionID]int{}}
		m.belts[ttl] = b
	}
	_, heard := b.left[id]
	b.left[id] = silences + 1
	if !heard {
		m.turnLocked()
	}
}

// forgetLocked takes a session that was closed off its belt.
func (m *Manager) forgetLocked(id txn.SessionID) {
	for _, b := range m.belts {
		delete(b.left, id)
	}
}

// turnLocked rotates the belts whose time has come, stops those that are empty, and
// has the sessions that fall off expire.
func (m *Manager) turnLocked() {
	now := time.Now()
	m.turn = now.Add(time.Hour)
	var silent []txn.SessionID
	for ttl, b := range m.belts {
		if len(b.left) == 0 {
			delete(m.belts, ttl)
			continue
		}
		if !now.Before(b.rotate) {
			b.rotate = now.Add(ttl / silences)
			silent = b.fallOff(silent)
		}
		if b.rotate.Before(m.turn) {
			m.turn = b.rotate
		}
	}
	slices.SortFunc(silent, txn.SessionID.Compare)
	for ids := range slices.Chunk(silent, machine.MaxExpire) {
		m.applyLocked(machine.ExpireSessions{IDs: ids})
	}
	m.armLocked()
}

// fallOff is one rotation. It appends who falls off.
func (b *belt) fallOff(dst []txn.SessionID) []txn.SessionID {
	for id := range b.left {
		if b.left[id]--; b.left[id] == 0 {
			delete(b.left, id)
			dst = append(dst, id)
		}
	}
	return dst
}
