package txntest

import (
	"slices"
	"time"

	"github.com/txmgr/txmgr/txn"
	"github.com/txmgr/txmgr/txn/machine"
)

// rotationsPerTTL is how many rotations of a belt a session survives without a keep-alive, as
// in a node: it expires at most one of them, an eighth of its TTL, late.
const rotationsPerTTL = 8

// belt holds the open sessions of one TTL.
type belt struct {
	nextRotation  time.Time             // the next rotation
	rotationsLeft map[txn.SessionID]int // after how many rotations a session expires
}

// renewLocked moves a session to the front of its belt. The first one of its TTL starts the
// belt.
func (m *Manager) renewLocked(id txn.SessionID, ttl time.Duration) {
	b := m.belts[ttl]
	if b == nil {
		b = &belt{nextRotation: time.Now().Add(ttl / rotationsPerTTL), rotationsLeft: map[txn.SessionID]int{}}
		m.belts[ttl] = b
	}
	_, heard := b.rotationsLeft[id]
	b.rotationsLeft[id] = rotationsPerTTL + 1
	if !heard {
		m.rotateLocked()
	}
}

// dropSessionLocked removes a session that was closed from its belt.
func (m *Manager) dropSessionLocked(id txn.SessionID) {
	for _, b := range m.belts {
		delete(b.rotationsLeft, id)
	}
}

// rotateLocked rotates the belts that are due, stops those that are empty, and expires the
// sessions that are dropped.
func (m *Manager) rotateLocked() {
	now := time.Now()
	m.nextRotation = now.Add(time.Hour)
	var silent []txn.SessionID
	for ttl, b := range m.belts {
		if len(b.rotationsLeft) == 0 {
			delete(m.belts, ttl)
			continue
		}
		if !now.Before(b.nextRotation) {
			b.nextRotation = now.Add(ttl / rotationsPerTTL)
			silent = b.takeExpired(silent)
		}
		if b.nextRotation.Before(m.nextRotation) {
			m.nextRotation = b.nextRotation
		}
	}
	slices.SortFunc(silent, txn.SessionID.Compare)
	for ids := range slices.Chunk(silent, machine.MaxExpire) {
		m.applyLocked(machine.ExpireSessions{IDs: ids})
	}
	m.armLocked()
}

// takeExpired is one rotation. It appends the sessions that are dropped.
func (b *belt) takeExpired(dst []txn.SessionID) []txn.SessionID {
	for id := range b.rotationsLeft {
		if b.rotationsLeft[id]--; b.rotationsLeft[id] == 0 {
			delete(b.rotationsLeft, id)
			dst = append(dst, id)
		}
	}
	return dst
}
