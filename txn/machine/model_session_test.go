package machine

import (
	"cmp"
	"slices"
	"time"

	"pgregory.net/rapid"

	"github.com/txmgr/txmgr/timeout/survival"
	"github.com/txmgr/txmgr/txn"
)

// modelSession is a client session, the slow and obvious way: only the transactions say which
// session they have.
type modelSession struct {
	name   string
	ttl    time.Duration
	opened int64
	state  txn.SessionState
	at     survival.Tick
}

// session is apply for the commands about sessions.
func (m *model) session(c Command) (Code, bool) {
	switch c := c.(type) {
	case OpenSession:
		s := m.sessions[c.ID]
		switch {
		case s == nil:
			m.sessions[c.ID] = &modelSession{name: c.Name, ttl: c.TTL, opened: m.wall, state: txn.SessionOpen}
		case s.state != txn.SessionOpen:
			return SessionEnded, true
		case s.name != c.Name || s.ttl != c.TTL:
			return Conflict, true
		}
	case CloseSession:
		switch s := m.sessions[c.ID]; {
		case s == nil:
			return NoSession, true
		case s.state == txn.SessionExpired:
			return SessionEnded, true
		case s.state == txn.SessionOpen:
			m.endSession(c.ID, txn.SessionClosed)
		}
	case ExpireSessions:
		for _, id := range c.IDs {
			if s := m.sessions[id]; s != nil && s.state == txn.SessionOpen {
				m.endSession(id, txn.SessionExpired)
				m.counts.SessionsExpired++
			}
		}
	default:
		return 0, false
	}
	return OK, true
}

func (m *model) endSession(id txn.SessionID, state txn.SessionState) {
	s := m.sessions[id]
	s.state, s.at = state, m.tick
	m.ended = append(m.ended, id)
}

// expireSessions rolls back what ended sessions left undecided, session by session, in the
// order of joining.
func (m *model) expireSessions() {
	for _, id := range m.ended {
		var left []txn.ID
		for x, t := range m.txs {
			if t.session == id && !t.state.Decided() && !t.delegated() {
				left = append(left, x)
			}
		}
		slices.SortFunc(left, func(a, b txn.ID) int { return cmp.Compare(m.txs[a].joined, m.txs[b].joined) })
		for _, x := range left {
			m.expire(x)
		}
	}
}

func (m *model) mayBegin(id txn.SessionID) Code {
	s := m.sessions[id]
	switch {
	case id.IsZero():
		return OK
	case s == nil:
		return NoSession
	case s.state != txn.SessionOpen:
		return SessionEnded
	}
	return OK
}

func (m *model) forgetSessions() {
	retention := survival.Tick(m.boot.Retention / m.boot.Interval)
	for len(m.ended) > 0 && m.sessions[m.ended[0]].at+retention <= m.tick {
		delete(m.sessions, m.ended[0])
		m.ended = m.ended[1:]
	}
}

func sessionID(n uint64) txn.SessionID { return txn.SessionID(testID(n)) }

// drawSession names a session, or none.
func drawSession(t *rapid.T) (id txn.SessionID) {
	if n := rapid.Uint64Range(0, 3).Draw(t, "session id"); n > 0 {
		id = sessionID(n)
	}
	return id
}

func drawSessions(t *rapid.T) Command {
	id := sessionID(rapid.Uint64Range(1, 3).Draw(t, "session id"))
	switch rapid.IntRange(0, 4).Draw(t, "session command") {
	case 0, 1:
		return OpenSession{ID: id, Name: rapid.SampledFrom([]string{"app", "app", "another"}).Draw(t, "name"), TTL: time.Second}
	case 2:
		return CloseSession{id}
	}
	ids := rapid.SliceOfN(rapid.Map(rapid.Uint64Range(1, 3), sessionID), 0, 3).Draw(t, "silent")
	return ExpireSessions{ids}
}

// compareSessions compares every session, by every method that reads it.
func compareSessions(t *rapid.T, m *Machine, model *model) {
	all, next := m.Sessions(0, 1000, func(*Session) bool { return true })
	if len(all) != len(model.sessions) || next != 0 {
		t.Fatalf("%d sessions, more from %d; the model has %d", len(all), next, len(model.sessions))
	}
	for _, got := range all {
		want := model.sessions[got.ID]
		undecided := 0
		for _, x := range model.txs {
			if x.session == got.ID && !x.state.Decided() && !x.delegated() {
				undecided++
			}
		}
		if want == nil || got.Name != want.name || got.State != want.state || got.TTL != want.ttl || got.Opened != want.opened || got.EndedTick != want.at || got.Transactions != undecided {
			t.Fatalf("session %+v with %d transactions; the model has %+v with %d", got, got.Transactions, want, undecided)
		}
		if again, ok := m.Session(got.ID); !ok || again != got {
			t.Fatalf("session %+v in the list, and looked up %+v, %v", got, again, ok)
		}
	}
	for n := range uint64(5) {
		if code := m.SessionStatus(sessionID(n)).Code; n > 0 && code != model.mayBegin(sessionID(n)) {
			t.Fatalf("a sign of life of session %d: %s; the model says %s", n, codeNames[code], codeNames[model.mayBegin(sessionID(n))])
		}
	}
}
