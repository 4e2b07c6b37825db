package sim

import (
	"context"
	"errors"
	"reflect"
	"slices"
	"time"

	"github.com/txmgr/txmgr/timeout/survival"
	"github.com/txmgr/txmgr/txn"
	"github.com/txmgr/txmgr/txn/machine"
)

// stay is a session as the log has it.
type stay struct {
	opened time.Duration // its entry was first written
	ttl    time.Duration
	state  txn.SessionState
	index  uint64        // of the entry that ended it
	tick   survival.Tick // of that
}

// stays are all sessions of a log, and what was begun in them.
type stays struct {
	all    map[txn.SessionID]*stay
	guests map[txn.SessionID]*guest
	begun  map[txn.ID]txn.SessionID
	handed map[txn.ID]bool // delegated: a session's end does not decide it
}

func newStays(w *World) *stays {
	s := &stays{all: map[txn.SessionID]*stay{}, guests: map[txn.SessionID]*guest{}, begun: map[txn.ID]txn.SessionID{}, handed: map[txn.ID]bool{}}
	for _, g := range w.guests {
		s.guests[g.id] = g
	}
	return s
}

// over gives the session in which a transaction was begun if it has ended; nil otherwise.
func (s *stays) over(id txn.ID) *stay {
	if t := s.all[s.begun[id]]; t != nil && t.state != txn.SessionOpen {
		return t
	}
	return nil
}

// visit looks at what the commands of one entry did to sessions and by them, in their order.
func (r *replay) visit(e *written, entry machine.Entry) {
	s := r.stays
	decided := map[txn.ID]bool{} // by this entry
	for i, c := range entry.Commands {
		res := r.fx.Results[i]
		switch c := c.(type) {
		case machine.OpenSession:
			if res.Code == machine.OK && s.all[c.ID] == nil {
				s.all[c.ID] = &stay{opened: e.at, ttl: c.TTL, state: txn.SessionOpen}
				r.w.fire("session opened")
			}
		case machine.CloseSession:
			if res.Code == machine.OK {
				r.endStay(e, c.ID, txn.SessionClosed)
			}
		case machine.ExpireSessions:
			for _, id := range c.IDs {
				r.endStay(e, id, txn.SessionExpired)
			}
		case machine.Begin:
			if _, known := s.begun[c.ID]; res.Code == machine.OK && !known && !c.Session.IsZero() {
				s.begun[c.ID] = c.Session
				if t := s.all[c.Session]; t == nil || t.state != txn.SessionOpen {
					r.w.violate("%v: begun by entry %d in session %v, which is not open", c.ID, e.log.Index, c.Session)
				}
			}
		case machine.Delegate:
			if res.Code == machine.OK {
				s.handed[c.ID] = true
			}
		}
		r.visitDecision(e, c, res, decided)
	}
}

// visitDecision wants nothing to be committed by what came after the end of its session.
func (r *replay) visitDecision(e *written, c machine.Command, res machine.Result, decided map[txn.ID]bool) {
	f := reflect.ValueOf(c).FieldByName("ID")
	if !f.IsValid() {
		return
	}
	id, ok := f.Interface().(txn.ID)
	if _, before := r.end[id]; !ok || before || decided[id] || !res.State.Decided() {
		return
	}
	decided[id] = true
	if t := r.stays.over(id); t != nil && res.State.Commits() && !r.stays.handed[id] {
		r.w.violate("%v: committed by entry %d, after the end of its session %v by entry %d%s", id, e.log.Index, r.stays.begun[id], t.index, r.lifeOf(id))
	}
}

// endStay is called for each session that a command ends.
func (r *replay) endStay(e *written, id txn.SessionID, state txn.SessionState) {
	t := r.stays.all[id]
	if t == nil || t.state != txn.SessionOpen {
		return
	}
	t.state, t.index = state, e.log.Index
	r.fsm.View(func(m *machine.Machine) { t.tick = m.Tick() })
	r.w.fire("session " + state.String())
	if state != txn.SessionExpired {
		return
	}
	early := t.opened + t.ttl - e.at
	if g := r.stays.guests[id]; g != nil {
		early = max(early, g.early(e.at))
	}
	if early > 0 {
		r.w.violate("session %v, for %v: expired %v early, by entry %d of term %d, of n%d, at %v%s", id, t.ttl, early, e.log.Index, e.log.Term, e.host+1, e.at, r.ticks())
	}
}

// blamed wants the cause of a rollback to be that which came first: the end of the session, or of the time.
func (r *replay) blamed(e *written, c machine.Change) {
	t := r.stays.over(c.ID)
	first := false // the session's end
	if t != nil {
		r.fsm.View(func(m *machine.Machine) {
			if x, ok := m.Get(c.ID); ok {
				first = t.tick < x.Expiry
			}
		})
	}
	switch {
	case c.Cause == txn.CauseSessionExpired:
		r.w.fire("transaction ended by its session")
		if t == nil || t.state != txn.SessionExpired || !first {
			r.w.violate("%v: rolled back by entry %d, by the end of a session that has not ended before its time%s", c.ID, e.log.Index, r.lifeOf(c.ID))
		}
	case c.Cause == txn.CauseTimeout && first:
		r.w.violate("%v: timed out by entry %d, after the end of its session by entry %d%s", c.ID, e.log.Index, t.index, r.lifeOf(c.ID))
	case c.State.Commits() && t != nil && t.index < e.log.Index && !r.stays.handed[c.ID]:
		r.w.violate("%v: committed by entry %d, after the end of its session by entry %d%s", c.ID, e.log.Index, t.index, r.lifeOf(c.ID))
	}
}

// judgeStays compares the sessions of the log with what its replay, every node and every application say.
func (w *World) judgeStays(r *replay, m *machine.Machine) {
	for id, t := range r.stays.all {
		s, known := m.Session(id)
		if t.state == txn.SessionOpen || known && s.State != t.state {
			w.violate("session %v is %v by the log, and %v by the state", id, t.state, s.State)
		}
	}
	for _, g := range w.guests {
		g.mu.Lock()
		told, wishes := g.told, g.wishes
		g.mu.Unlock()
		t := r.stays.all[g.id]
		switch {
		case told != 0 && t == nil:
			w.violate("session %v: the application was told that it is %v, and the log does not know it", g.id, told)
		case told > txn.SessionOpen && told != t.state:
			w.violate("session %v: the application was told that it is %v; it is %v", g.id, told, t.state)
		case t != nil && t.state == txn.SessionClosed && !wishes:
			w.violate("session %v is closed, which nobody wanted", g.id)
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
		if l := h.alive(); l != nil {
			w.sameStays(l, want)
		}
	}
}

// anyStays reports whether some node has an open session.
func (w *World) anyStays() bool {
	return slices.ContainsFunc(w.hosts, func(h *host) bool {
		l := h.alive()
		if l == nil {
			return false
		}
		open, err := l.node.Sessions(txn.AllowStale(context.Background()), txn.SessionFilter{Limit: 1})
		return err != nil || len(open) > 0
	})
}

func (w *World) sameStays(l *life, want []machine.Session) {
	got, err := l.node.Sessions(txn.AllowStale(context.Background()), txn.SessionFilter{Ended: true})
	var log []txn.ClientSession
	for i := range want {
		log = append(log, want[i].Show())
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

// probeStay looks whether a session lives as long as it is kept alive when all is well, and not much longer.
func (w *World) probeStay(d *dice) {
	l := w.leader()
	if l == nil {
		w.violate("nobody leads when all is well")
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	const ttl = time.Second
	begun, heard, err := w.keepProbe(ctx, d, l, ttl)
	if err != nil {
		w.violate("a session when all is well: %v", err)
		return
	}
	i, err := l.node.Wait(ctx, begun, txn.Finished)
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

// keepProbe opens a session, begins a transaction in it, keeps it alive for longer than its TTL and gives when that was done
// for the last time.
func (w *World) keepProbe(ctx context.Context, d *dice, l *life, ttl time.Duration) (begun txn.ID, heard time.Duration, err error) {
	s, err := l.node.OpenSession(ctx, txn.SessionOptions{TTL: ttl})
	if err != nil {
		return begun, 0, err
	}
	id, _, _, err := w.beginNow(ctx, d, 98, l, txn.Options{Session: s.ID, Timeout: time.Minute})
	if err != nil {
		return id, 0, err
	}
	for range 2 {
		rest(d.between(ttl/2, ttl*9/10))
		heard = w.now()
		if _, err := l.node.KeepAlive(ctx, s.ID); err != nil {
			return id, heard, err
		}
	}
	return id, heard, nil
}
