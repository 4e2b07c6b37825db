package machine

import (
	"cmp"
	"fmt"
	"iter"
	"slices"
	"time"

	"github.com/txmgr/txmgr/timeout/survival"
	"github.com/txmgr/txmgr/txn"
	"github.com/txmgr/txmgr/txn/admin"
	"github.com/txmgr/txmgr/txn/machine/internal/slab"
)

// Session is a copy of one client session of the machine, for readers and snapshots.
type Session struct {
	ID     txn.SessionID
	Name   string
	State  txn.SessionState
	TTL    time.Duration
	Opened int64 // leader's wall clock, milliseconds since 1970
	// Seq is its place in the order of ending, and EndedTick the tick; zero while it is open.
	Seq       uint64
	EndedTick survival.Tick
	// Transactions is how many undecided transactions it has. It follows from these, and is not
	// part of a snapshot.
	Transactions int
}

// Public returns the public form.
func (s *Session) Public() admin.ClientSession {
	return admin.ClientSession{
		ID: s.ID, Name: s.Name, State: s.State, TTL: txn.Duration(s.TTL), Opened: time.UnixMilli(s.Opened).UTC(),
		Transactions: s.Transactions, EndedTick: uint64(s.EndedTick),
	}
}

// endedResult is the refusal of a command that needs an open session.
func (s *Session) endedResult() Result {
	return Result{Code: SessionEnded, Cause: s.State.Cause(), Expiry: s.EndedTick, Timeout: s.TTL}
}

func expandSession(p *slab.Pages[session], cells *slab.StringPages, k uint32, c *Session) {
	s := p.At(k)
	*c = Session{
		ID: s.id, Name: string(cells.Append(nil, s.name)), State: s.state, TTL: s.ttl, Opened: s.opened,
		Seq: s.seq, EndedTick: s.endedTick, Transactions: int(s.count),
	}
}

// Session returns a client session, also one that has ended and is retained.
func (m *Machine) Session(id txn.SessionID) (c Session, ok bool) {
	k, ok := m.sessions.index[id]
	if ok {
		expandSession(&m.sessions.slab.Pages, m.strings.Pages(), k, &c)
	}
	return c, ok
}

// SessionStatus is the answer to a keep-alive of a session: OK and its TTL, or why it is too
// late.
func (m *Machine) SessionStatus(id txn.SessionID) Result {
	c, ok := m.Session(id)
	switch {
	case !ok:
		return Result{Code: NoSession}
	case c.State != txn.SessionOpen:
		return c.endedResult()
	}
	return Result{Timeout: c.TTL}
}

// Sessions returns sessions for which match holds, by slot, as [Machine.Scan] does. What is
// passed to match has no name.
func (m *Machine) Sessions(from uint32, limit int, match func(*Session) bool) (found []Session, next uint32) {
	p := &m.sessions.slab.Pages
	k := max(from, 1)
	for ; k < p.Used() && limit > 0; k++ {
		limit--
		s := p.At(k)
		if s.id.IsZero() {
			continue
		}
		c := Session{ID: s.id, State: s.state, TTL: s.ttl, Opened: s.opened, Seq: s.seq, EndedTick: s.endedTick, Transactions: int(s.count)}
		if match(&c) {
			expandSession(p, m.strings.Pages(), k, &c)
			found = append(found, c)
		}
	}
	if k >= p.Used() {
		return found, 0
	}
	return found, k
}

// Sessions yields all sessions, in no meaningful order. The yielded value is used again. It may
// run while the machine applies entries.
func (s *Snapshot) Sessions() iter.Seq[*Session] {
	return func(yield func(*Session) bool) {
		var c Session
		for k := uint32(1); k < s.sessions.Used(); k++ {
			if s.sessions.At(k).id.IsZero() {
				continue
			}
			expandSession(&s.sessions, &s.image.cells, k, &c)
			c.Transactions = 0
			if !yield(&c) {
				return
			}
		}
	}
}

// restoreSessions puts the sessions into the slab, not into any order yet.
func (m *Machine) restoreSessions(h Header, sessions iter.Seq2[*Session, error]) error {
	g := &m.sessions
	g.expired = h.SessionsExpired
	for c, err := range sessions {
		if err != nil {
			return err
		}
		_, twice := g.index[c.ID]
		open := c.State == txn.SessionOpen
		switch {
		case twice || c.ID.IsZero() || len(c.Name) > txn.MaxName || c.TTL <= 0 || c.TTL > txn.GrantedTTL(txn.MaxSessionTTL):
			return fmt.Errorf("session %v is there twice, or not as sessions are", c.ID)
		case c.State < txn.SessionOpen || c.State > txn.SessionExpired || open != (c.Seq == 0) || open && c.EndedTick != 0 || c.Seq > m.seq || c.EndedTick > m.tick:
			return fmt.Errorf("session %v in state %v, at place %d of %d, ended at tick %d of %d", c.ID, c.State, c.Seq, m.seq, c.EndedTick, m.tick)
		case open:
			g.open++
		}
		k := g.slab.Take()
		*g.slab.Edit(k) = session{
			id: c.ID, opened: c.Opened, seq: c.Seq, endedTick: c.EndedTick, ttl: c.TTL, name: slab.Store(&m.strings, c.Name), state: c.State,
		}
		g.index[c.ID] = k
	}
	if g.open > txn.MaxSessions {
		return fmt.Errorf("%d open sessions; at most %d", g.open, txn.MaxSessions)
	}
	return nil
}

// linkSessions makes the queue of those that have ended.
func (m *Machine) linkSessions() {
	g := &m.sessions
	var ended []uint32
	for k := uint32(1); k < g.slab.Used(); k++ {
		if g.slab.At(k).seq != 0 {
			ended = append(ended, k)
		}
	}
	slices.SortFunc(ended, func(a, b uint32) int { return cmp.Compare(g.slab.At(a).seq, g.slab.At(b).seq) })
	for _, k := range ended {
		g.enqueueEnded(k)
	}
}
