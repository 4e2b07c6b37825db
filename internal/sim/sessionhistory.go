package sim

import (
	"context"
	"errors"
	"reflect"
	"slices"
	"time"

	"github.com/txmgr/txmgr/timeout/survival"
	"github.com/txmgr/txmgr/txn"
	"github.com/txmgr/txmgr/txn/admin"
	"github.com/txmgr/txmgr/txn/machine"
)

// sessionRecord is a session as it is in the log.
type sessionRecord struct {
	opened time.Duration // when its entry was first written
	ttl    time.Duration
	state  txn.SessionState
	index  uint64        // of the entry that ended it
	tick   survival.Tick // the tick of that entry
}

// sessionHistory contains all sessions of a log, and the transactions begun in them.
type sessionHistory struct {
	all       map[txn.SessionID]*sessionRecord
	clients   map[txn.SessionID]*sessionClient
	begun     map[txn.ID]txn.SessionID
	delegated map[txn.ID]bool // delegated transactions: the end of a session does not decide them
}

func newSessionHistory(w *World) *sessionHistory {
	s := &sessionHistory{all: map[txn.SessionID]*sessionRecord{}, clients: map[txn.SessionID]*sessionClient{}, begun: map[txn.ID]txn.SessionID{}, delegated: map[txn.ID]bool{}}
	for _, g := range w.sessionClients {
		s.clients[g.id] = g
	}
	return s
}

// endedSession returns the session in which a transaction was begun if it has ended; nil otherwise.
func (s *sessionHistory) endedSession(id txn.ID) *sessionRecord {
	if t := s.all[s.begun[id]]; t != nil && t.state != txn.SessionOpen {
		return t
	}
	return nil
}

// applySessions checks how the commands of one entry changed sessions and their transactions, in
// order.
func (r *replay) applySessions(e *loggedEntry, entry machine.Entry) {
	s := r.sessions
	decided := map[txn.ID]bool{} // by this entry
	for i, c := range entry.Commands {
		res := r.fx.Results[i]
		switch c := c.(type) {
		case machine.OpenSession:
			if res.Code == machine.OK && s.all[c.ID] == nil {
				s.all[c.ID] = &sessionRecord{opened: e.at, ttl: c.TTL, state: txn.SessionOpen}
				r.w.countFault("session opened")
			}
		case machine.CloseSession:
			if res.Code == machine.OK {
				r.endSession(e, c.ID, txn.SessionClosed)
			}
		case machine.ExpireSessions:
			for _, id := range c.IDs {
				r.endSession(e, id, txn.SessionExpired)
			}
		case machine.Begin:
			if _, known := s.begun[c.ID]; res.Code == machine.OK && !known && !c.Session.IsZero() {
				s.begun[c.ID] = c.Session
				s.delegated[c.ID] = s.delegated[c.ID] || slices.ContainsFunc(c.Branches, func(b machine.Branch) bool { return b.Decides })
				if t := s.all[c.Session]; t == nil || t.state != txn.SessionOpen {
					r.w.violate("%v: begun by entry %d in session %v, which is not open", c.ID, e.log.Index, c.Session)
				}
			}
		case machine.Delegate:
			if res.Code == machine.OK {
				s.delegated[c.ID] = true
			}
		case machine.Enlist:
			if res.Code == machine.OK && c.Branch.Decides {
				s.delegated[c.ID] = true
			}
		}
		r.checkSessionDecision(e, c, res, decided)
	}
}

// checkSessionDecision checks that no command after the end of a session commits its transactions.
func (r *replay) checkSessionDecision(e *loggedEntry, c machine.Command, res machine.Result, decided map[txn.ID]bool) {
	f := reflect.ValueOf(c).FieldByName("ID")
	if !f.IsValid() {
		return
	}
	id, ok := f.Interface().(txn.ID)
	if _, before := r.decisions[id]; !ok || before || decided[id] || !res.State.Decided() {
		return
	}
	decided[id] = true
	if t := r.sessions.endedSession(id); t != nil && res.State.Commits() && !r.sessions.delegated[id] {
		r.w.violate("%v: committed by entry %d, after the end of its session %v by entry %d%s", id, e.log.Index, r.sessions.begun[id], t.index, r.txHistory(id))
	}
}

// endSession is called for each session that a command ends.
func (r *replay) endSession(e *loggedEntry, id txn.SessionID, state txn.SessionState) {
	t := r.sessions.all[id]
	if t == nil || t.state != txn.SessionOpen {
		return
	}
	t.state, t.index = state, e.log.Index
	r.fsm.View(func(m *machine.Machine) { t.tick = m.Tick() })
	r.w.countFault("session " + state.String())
	if state != txn.SessionExpired {
		return
	}
	early := t.opened + t.ttl - e.at
	if g := r.sessions.clients[id]; g != nil {
		early = max(early, g.remaining(e.at))
	}
	if early > 0 {
		r.w.violate("session %v, for %v: expired %v early, by entry %d of term %d, of n%d, at %v%s", id, t.ttl, early, e.log.Index, e.log.Term, e.host+1, e.at, r.ticks())
	}
}

// checkCause checks that the cause of a rollback is the first of two events: the end of the session
// and the deadline.
func (r *replay) checkCause(e *loggedEntry, c machine.Change) {
	t := r.sessions.endedSession(c.ID)
	first := false // the session ended first
	if t != nil {
		r.fsm.View(func(m *machine.Machine) {
			if x, ok := m.Get(c.ID); ok {
				first = t.tick < x.Expiry
			}
		})
	}
	switch {
	case c.Cause == txn.CauseSessionExpired:
		r.w.countFault("transaction ended by its session")
		if t == nil || t.state != txn.SessionExpired || !first {
			r.w.violate("%v: rolled back by entry %d, by the end of a session that has not ended before its time%s", c.ID, e.log.Index, r.txHistory(c.ID))
		}
	case c.Cause == txn.CauseTimeout && first:
		r.w.violate("%v: timed out by entry %d, after the end of its session by entry %d%s", c.ID, e.log.Index, t.index, r.txHistory(c.ID))
	case c.State.Commits() && t != nil && t.index < e.log.Index && !r.sessions.delegated[c.ID]:
		r.w.violate("%v: committed by entry %d, after the end of its session by entry %d%s", c.ID, e.log.Index, t.index, r.txHistory(c.ID))
	}
}

// checkSessions compares the sessions of the log with those of its replay, of every node and of
// every application.
func (w *World) checkSessions(r *replay, m *machine.Machine) {
	for id, t := range r.sessions.all {
		s, known := m.Session(id)
		if t.state == txn.SessionOpen || known && s.State != t.state {
			w.violate("session %v is %v by the log, and %v by the state", id, t.state, s.State)
		}
	}
	for _, g := range w.sessionClients {
		g.mu.Lock()
		told, wishes := g.reported, g.closeRequested
		g.mu.Unlock()
		t := r.sessions.all[g.id]
		switch {
		case told != 0 && t == nil:
			w.violate("session %v: the application was told that it is %v, and the log does not know it", g.id, told)
		case told > txn.SessionOpen && told != t.state:
			w.violate("session %v: the application was told that it is %v; it is %v", g.id, told, t.state)
		case t != nil && t.state == txn.SessionClosed && !wishes:
			w.violate("session %v is closed, although no client closed it", g.id)
		}
	}
	var want []machine.Session
	for from, first := uint32(0), true; first || from != 0; first = false {
		var part []machine.Session
		part, from = m.Sessions(from, 1000, func(*machine.Session) bool { return true })
		want = append(want, part...)
	}
	slices.SortFunc(want, func(a, b machine.Session) int { return a.ID.Compare(b.ID) })
	for _, h := range w.hosts {
		if l := h.running(); l != nil {
			w.compareSessions(l, want)
		}
	}
}

// anyOpenSession reports whether some node has an open session.
func (w *World) anyOpenSession() bool {
	return slices.ContainsFunc(w.hosts, func(h *host) bool {
		l := h.running()
		if l == nil {
			return false
		}
		open, err := l.node.Admin().Sessions(txn.AllowStale(context.Background()), admin.SessionFilter{Limit: 1})
		return err != nil || len(open) > 0
	})
}

func (w *World) compareSessions(l *process, want []machine.Session) {
	got, err := l.node.Admin().Sessions(txn.AllowStale(context.Background()), admin.SessionFilter{Ended: true})
	var log []admin.ClientSession
	for i := range want {
		log = append(log, want[i].Public())
	}
	got, log = w.common(got, log)
	if err != nil || len(got) != len(log) {
		w.violate("%s has %d sessions (%v), the log %d", l.host.name, len(got), err, len(log))
		return
	}
	for i := range got {
		if got[i] != log[i] {
			w.violate("%s has the session %+v, the log has it as %+v", l.host.name, got[i], log[i])
		}
	}
}

// probeSession checks that, without faults, a session stays open while it is kept alive, and not
// much longer.
func (w *World) probeSession(d *rng) {
	l := w.leader()
	if l == nil {
		w.violate("no leader although all is well")
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	const ttl = time.Second
	begun, heard, err := w.keepProbeAlive(ctx, d, l, ttl)
	if err != nil {
		w.violate("a session when all is well: %v", err)
		return
	}
	i, err := l.node.Wait(ctx, begun, txn.UntilFinished)
	over := w.now()
	switch {
	case err != nil || i.Cause != txn.CauseSessionExpired:
		w.violate("%v ended by %v when all is well: %v", begun, i.Cause, err)
	case over < heard+ttl:
		w.violate("session %v expired %v early when all is well", i.Session, heard+ttl-over)
	case over > heard+ttl+ttl/8+probeSlack:
		w.violate("session %v expired %v late, although all is well", i.Session, over-heard-ttl)
	}
	_, err = l.node.KeepAlive(ctx, i.Session)
	if !errors.Is(err, txn.ErrSessionExpired) {
		w.violate("session %v after its end: %v", i.Session, err)
	}
}

// keepProbeAlive opens a session, begins a transaction in it, keeps it alive for longer than its
// TTL, and returns the time of the last keep-alive.
func (w *World) keepProbeAlive(ctx context.Context, d *rng, l *process, ttl time.Duration) (begun txn.ID, heard time.Duration, err error) {
	s, err := l.node.OpenSession(ctx, txn.SessionOptions{TTL: ttl})
	if err != nil {
		return begun, 0, err
	}
	id, _, _, err := w.beginNow(ctx, d, 98, l, txn.Options{Session: s.ID, Timeout: time.Minute})
	if err != nil {
		return id, 0, err
	}
	for range 2 {
		sleep(d.between(ttl/2, ttl*9/10))
		heard = w.now()
		if _, err := l.node.KeepAlive(ctx, s.ID); err != nil {
			return id, heard, err
		}
	}
	return id, heard, nil
}
