package machine

import (
	"github.com/txmgr/txmgr/timeout/survival"
	"github.com/txmgr/txmgr/txn"
	"github.com/txmgr/txmgr/txn/machine/internal/slab"
)

func (m *Machine) openSession(c OpenSession) Result {
	g := &m.sessions
	k, known := g.index[c.ID]
	switch {
	case c.ID.IsZero() || len(c.Name) > txn.MaxName || c.TTL <= 0 || c.TTL > txn.GrantedTTL(txn.MaxSessionTTL):
		return Result{Code: Malformed}
	case known && g.slab.At(k).state != txn.SessionOpen:
		return m.sessionEnded(k)
	case known && (g.slab.At(k).ttl != c.TTL || !m.strings.Pages().Equal(g.slab.At(k).name, []byte(c.Name))):
		return Result{Code: Conflict}
	case known:
		return Result{Timeout: c.TTL}
	case g.open == txn.MaxSessions:
		return Result{Code: TooMany}
	}
	k = g.slab.Take()
	*g.slab.Edit(k) = session{id: c.ID, opened: m.wall, ttl: c.TTL, name: slab.Store(&m.strings, c.Name), state: txn.SessionOpen}
	g.index[c.ID] = k
	g.open++
	m.fx.SessionsOpened = append(m.fx.SessionsOpened, SessionLease{c.ID, c.TTL})
	return Result{Timeout: c.TTL}
}

// sessionEnded refuses a command that needs an open session.
func (m *Machine) sessionEnded(k uint32) Result {
	s := m.sessions.slab.At(k)
	return Result{Code: SessionEnded, Cause: s.state.Cause(), Expiry: s.endedTick, Timeout: s.ttl}
}

// checkSession refuses a begin in a session that is not open.
func (m *Machine) checkSession(id txn.SessionID) Result {
	if id.IsZero() {
		return Result{}
	}
	k, known := m.sessions.index[id]
	switch {
	case !known:
		return Result{Code: NoSession}
	case m.sessions.slab.At(k).state != txn.SessionOpen:
		return m.sessionEnded(k)
	}
	return Result{}
}

// closeSession ends a session at its client's request; again, it is a repeat.
func (m *Machine) closeSession(c CloseSession) Result {
	k, known := m.sessions.index[c.ID]
	switch {
	case !known:
		return Result{Code: NoSession}
	case m.sessions.slab.At(k).state == txn.SessionExpired:
		return m.sessionEnded(k)
	case m.sessions.slab.At(k).state == txn.SessionOpen:
		m.endSession(k, txn.SessionClosed)
		m.fx.SessionsClosed = append(m.fx.SessionsClosed, SessionLease{c.ID, m.sessions.slab.At(k).ttl})
	}
	return Result{}
}

// expireSessions ends those that are open.
func (m *Machine) expireSessions(c ExpireSessions) Result {
	if len(c.IDs) > MaxExpire {
		return Result{Code: Malformed}
	}
	for _, id := range c.IDs {
		if k, known := m.sessions.index[id]; known && m.sessions.slab.At(k).state == txn.SessionOpen {
			m.endSession(k, txn.SessionExpired)
			m.sessions.expired++
		}
	}
	return Result{}
}

// endSession ends a session. That its undecided transactions are due is a derived fact: see
// dueCause.
func (m *Machine) endSession(k uint32, state txn.SessionState) {
	s := m.sessions.slab.Edit(k)
	s.state, s.endedTick, s.seq = state, m.tick, m.nextSeq()
	m.sessions.open--
	m.sessions.enqueueEnded(k)
}

// expireSessionBatch changes at most limit transactions whose session has ended to rolling
// back.
func (m *Machine) expireSessionBatch(limit int) {
	for ; limit > 0 && m.sessions.draining != 0; limit-- {
		i := m.sessions.slab.At(m.sessions.draining).first
		m.expireNow(i, m.dueCause(m.txs.At(i)))
	}
}

// forgetSessions drops ended sessions after their retention: that of outcomes, and never more
// than MaxEndedSessions of them.
func (m *Machine) forgetSessions() {
	if m.boot.Interval == 0 {
		return
	}
	g := &m.sessions
	retention := survival.Tick(m.boot.Retention / m.boot.Interval)
	for range forgetBatch {
		k := g.head
		if k == 0 || k == g.draining || g.slab.Len()-g.open <= MaxEndedSessions && g.slab.At(k).endedTick+retention > m.tick {
			return
		}
		if g.head = g.slab.At(k).next; g.head == 0 {
			g.tail = 0
		}
		delete(g.index, g.slab.At(k).id)
		m.strings.Drop(g.slab.At(k).name)
		g.slab.Give(k)
	}
}
