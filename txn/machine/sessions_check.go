package machine

import (
	"fmt"

	"github.com/txmgr/txmgr/txn"
)

// checkSessions verifies the sessions, their lists, and the queue of those that have ended.
func (m *Machine) checkSessions() error {
	g := &m.sessions
	open, ended, members := 0, 0, 0
	for k := uint32(1); k < g.slab.Used(); k++ {
		s := g.slab.At(k)
		if s.id.IsZero() {
			continue
		}
		switch {
		case g.index[s.id] != k:
			return fmt.Errorf("session %v is in slot %d, and the index says %d", s.id, k, g.index[s.id])
		case s.state == txn.SessionOpen:
			open++
		default:
			ended++
		}
		if err := m.checkList(k); err != nil {
			return err
		}
		members += int(s.count)
	}
	if open != g.open || open+ended != g.slab.Len() || open+ended != len(g.index) {
		return fmt.Errorf("%d sessions open and %d ended; counted %d of %d, %d in the index", open, ended, g.open, g.slab.Len(), len(g.index))
	}
	if err := m.checkEnded(ended); err != nil {
		return err
	}
	return m.checkMembers(members)
}

// checkList verifies the undecided transactions of one session.
func (m *Machine) checkList(k uint32) error {
	s := m.sessions.slab.At(k)
	before, seq, n := uint32(0), uint64(0), uint32(0)
	for i := s.first; i != 0; i = m.txs.At(i).next {
		r := m.txs.At(i)
		if !r.hasDeadline() || r.sessionSlot() != k || r.prev != before || r.seq <= seq || m.sessionOf(r) != s.id {
			return fmt.Errorf("%v in state %v, of session %v, is in the list of %v: place %d after %d", r.id, r.state, m.sessionOf(r), s.id, r.seq, seq)
		}
		before, seq = i, r.seq
		n++
	}
	if n != s.count || before != s.last {
		return fmt.Errorf("session %v has %d transactions and says %d", s.id, n, s.count)
	}
	return nil
}

// checkEnded verifies the queue.
func (m *Machine) checkEnded(ended int) error {
	g := &m.sessions
	var seq uint64
	var last, draining uint32
	for k := g.head; k != 0; k = g.slab.At(k).next {
		s := g.slab.At(k)
		if s.state == txn.SessionOpen || s.seq <= seq {
			return fmt.Errorf("session %v in state %v is in the queue of those that have ended: place %d after %d", s.id, s.state, s.seq, seq)
		}
		if draining == 0 && s.count > 0 {
			draining = k
		}
		last, seq = k, s.seq
		ended--
	}
	if ended != 0 || last != g.tail || draining != g.draining {
		return fmt.Errorf("queue of ended sessions: %d are missing, the last is slot %d and says %d, the first with transactions %d and says %d", ended, last, g.tail, draining, g.draining)
	}
	return nil
}

// checkMembers verifies that each undecided transaction that was begun in a session is in its
// list, and no other.
func (m *Machine) checkMembers(members int) error {
	for i := uint32(1); i < m.txs.Used(); i++ {
		r := m.txs.At(i)
		if want := r.hasDeadline() && r.is(inSession); r.is(inSessionList) != want {
			return fmt.Errorf("%v in state %v, begun in a session: %v, is in the list of one: %v", r.id, r.state, r.is(inSession), r.is(inSessionList))
		}
		if r.is(inSessionList) {
			members--
		}
	}
	if members != 0 {
		return fmt.Errorf("sessions count %d transactions more than there are", members)
	}
	return nil
}
