package machine

import (
	"sync/atomic"
	"time"

	"github.com/txmgr/txmgr/timeout/survival"
	"github.com/txmgr/txmgr/txn"
	"github.com/txmgr/txmgr/txn/machine/internal/slab"
)

// Limits of client sessions: how many that have ended are retained, and how many one command
// expires.
const (
	MaxEndedSessions = 100_000
	MaxExpire        = 4096
)

// session is a client session in its slab. It has no pointers.
type session struct {
	id        txn.SessionID
	opened    int64         // leader's wall clock, milliseconds since 1970
	seq       uint64        // place in the order of ending; 0 while open
	endedTick survival.Tick // of its end
	ttl       time.Duration
	name      slab.StringRef
	first     uint32 // undecided transactions, in the order of their joining the survival index
	last      uint32
	count     uint32
	next      uint32 // the session that ended after this one
	state     txn.SessionState
}

// sessions are the sessions that are open, and those that have ended and are retained. The
// latter are a queue, in the order in which they ended.
type sessions struct {
	slab       slab.Slab[session]
	index      map[txn.SessionID]uint32 // for look-ups, never ranged over
	head, tail uint32
	// draining is the first session of the queue that has undecided transactions; 0 when none
	// has.
	draining uint32
	open     int
	expired  uint64
}

func newSessions(shared *atomic.Int32) sessions {
	return sessions{slab: slab.New[session](shared), index: make(map[txn.SessionID]uint32)}
}

// enqueueEnded puts an ended session into the queue.
func (g *sessions) enqueueEnded(k uint32) {
	if g.tail == 0 {
		g.head = k
	} else {
		g.slab.Edit(g.tail).next = k
	}
	g.tail = k
	if g.draining == 0 && g.slab.At(k).count > 0 {
		g.draining = k
	}
}

// appendSession appends the id, and nothing for the zero id.
func appendSession(dst []byte, id txn.SessionID) []byte {
	if id.IsZero() {
		return dst
	}
	return append(dst, id[:]...)
}

// sessionOf is the id of the session in which r was begun.
func (m *Machine) sessionOf(r *record) (id txn.SessionID) {
	if r.is(inSession) {
		copy(id[:], m.strings.Pages().Head(r.labels))
	}
	return id
}

// sessionSlot is the slot of the session in whose list the undecided r is; 0 for none.
func (r *record) sessionSlot() uint32 {
	if r.is(inSessionList) {
		return uint32(r.entry)
	}
	return 0
}

// joinSession puts an undecided transaction at the end of its session's list, if it has one.
func (m *Machine) joinSession(i uint32) {
	if !m.txs.At(i).is(inSession) {
		return
	}
	k := m.sessions.index[m.sessionOf(m.txs.At(i))]
	s, r := m.sessions.slab.Edit(k), m.txs.Edit(i)
	r.flags |= inSessionList
	r.entry, r.prev = uint64(k), s.last
	if s.last == 0 {
		s.first = i
	} else {
		m.txs.Edit(s.last).next = i
	}
	s.last = i
	s.count++
}

// leaveSession takes a transaction out of the list of its session, if it is in one.
func (m *Machine) leaveSession(i uint32) {
	k := m.txs.At(i).sessionSlot()
	if k == 0 {
		return
	}
	s, r := m.sessions.slab.Edit(k), m.txs.Edit(i)
	if r.prev == 0 {
		s.first = r.next
	} else {
		m.txs.Edit(r.prev).next = r.next
	}
	if r.next == 0 {
		s.last = r.prev
	} else {
		m.txs.Edit(r.next).prev = r.prev
	}
	r.flags &^= inSessionList
	r.entry, r.next, r.prev = 0, 0, 0
	s.count--
	if k == m.sessions.draining && s.count == 0 {
		m.advanceDraining()
	}
}

// advanceDraining goes on in the queue, to the next session with undecided transactions.
func (m *Machine) advanceDraining() {
	g := &m.sessions
	for g.draining != 0 && g.slab.At(g.draining).count == 0 {
		g.draining = g.slab.At(g.draining).next
	}
}
