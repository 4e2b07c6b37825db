package sim

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/txmgr/txmgr/recovery"
	"github.com/txmgr/txmgr/txn"
	"github.com/txmgr/txmgr/txn/admin"
	"github.com/txmgr/txmgr/txn/machine"
)

// Memory is how long a cluster keeps outcomes. Its zero value is the product's default, with which
// nothing is forgotten during a run.
type Memory struct {
	Retention time.Duration
	Retain    uint64
}

// drawRetention gives every third run a short retention, by time or by number.
func drawRetention(seed uint64) (m Memory) {
	d := newRNG(seed, 7)
	switch d.n(6) {
	case 0:
		m.Retention = d.between(time.Second, 12*time.Second)
	case 1:
		m.Retain = uint64(1 + d.n(40))
	}
	return m
}

// forgets reports whether outcomes are forgotten during the run.
func (w *World) forgets() bool { return w.plan.Memory != Memory{} }

// maxSkew bounds the error of wall clocks. Where outcomes are forgotten it is the bound of the
// promise about ids without a mark.
func (w *World) maxSkew() time.Duration {
	if w.forgets() {
		return recovery.ClockSlack
	}
	return time.Hour
}

// latestMark is the mark for an id that the application makes now.
func (a *app) latestMark() txn.Mark {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.mark
}

// learnMark takes the mark from the answer to a begin.
func (a *app) learnMark(b txn.BeginResult, err error) {
	var x *txn.Error
	switch {
	case errors.Is(err, txn.ErrForgotten) && errors.As(err, &x):
		b.Mark = x.Mark
	case err != nil:
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if b.Mark.Tick > a.mark.Tick { // there are no restores here
		a.mark = b.Mark
	}
}

// repeatLate repeats the begin of one of the older transactions.
func (a *app) repeatLate(ctx context.Context, d *rng) {
	w := a.w
	w.mu.Lock()
	var r *txRecord
	if n := len(w.ids) / 2; n > 0 {
		r = w.apps[w.ids[d.n(n)]]
	}
	w.mu.Unlock()
	if r == nil {
		return
	}
	if o, ok := r.begin(); ok {
		w.countFault("client: begin repeated late")
		_, _ = a.Begin(ctx, o)
	}
}

// rebegun are the transactions that an entry begins although they were decided before and are
// forgotten.
func (r *replay) rebegun(entry machine.Entry) map[txn.ID]bool {
	var gone map[txn.ID]bool
	for _, c := range entry.Commands {
		b, ok := c.(machine.Begin)
		if _, ended := r.decisions[b.ID]; !ok || !ended {
			continue
		}
		r.fsm.View(func(m *machine.Machine) {
			if _, known := m.Get(b.ID); !known {
				gone = with(gone, b.ID)
			}
		})
	}
	return gone
}

func with(set map[txn.ID]bool, id txn.ID) map[txn.ID]bool {
	if set == nil {
		set = map[txn.ID]bool{}
	}
	set[id] = true
	return set
}

// checkBegin checks that no begin is carried out for an id whose transaction was decided and
// forgotten.
func (r *replay) checkBegin(e *loggedEntry, c machine.Begin, res machine.Result, gone bool) {
	end, ended := r.decisions[c.ID]
	switch {
	case ended && res.Code == machine.OK && (gone || !res.State.Decided()):
		r.w.violate("%v, which was decided (%v) and forgotten, lives again by entry %d: %+v%s", c.ID, end, e.log.Index, c.Mark, r.txHistory(c.ID))
	case gone && res.Code == machine.Forgotten:
		r.w.countFault("begin refused behind the horizon")
	}
}

// remember keeps the log's state of transactions, for those that the log forgets.
func (r *replay) remember() {
	r.fsm.View(func(m *machine.Machine) {
		for _, c := range r.fx.Changes {
			if t, known := m.Get(c.ID); known {
				r.last[c.ID] = t
			}
		}
	})
}

// find returns a transaction as it is, or was before it was forgotten.
func (r *replay) find(m *machine.Machine, id txn.ID) (t machine.Transaction, known bool) {
	if t, known = m.Get(id); known {
		return t, true
	}
	t, known = r.last[id]
	switch {
	case !known:
	case !r.w.forgets():
		r.w.violate("%v was forgotten in no time%s", id, r.txHistory(id))
	case !t.State.Finished() || t.Heuristic != 0:
		r.w.violate("%v was forgotten while it was %v, heuristic %v%s", id, t.State, t.Heuristic, r.txHistory(id))
	default:
		r.w.countFault("outcome forgotten")
	}
	return t, known
}

// mayBeForgotten reports whether the session may have expired and been forgotten, by the
// keep-alives that were answered. It is called with the lock held.
func (g *sessionClient) mayBeForgotten() bool {
	w := g.app.w
	kept := w.plan.Memory.Retention
	return kept > 0 && g.remaining(w.now()-kept+w.interval()) <= 0
}

// beginNow begins a transaction with a new id, which is replaced once if no mark is known that is
// young enough, and returns when the call that was carried out began and ended.
func (w *World) beginNow(ctx context.Context, d *rng, client int, l *process, o txn.Options) (id txn.ID, from, to time.Duration, err error) {
	var x *txn.Error
	for range 2 {
		o.ID = txn.NewID(time.Now(), d.entropy())
		e := w.history.begin(client, opBegin, o.ID, l.host.index, o.Timeout)
		from = w.now()
		_, err = l.node.Begin(ctx, o)
		w.history.end(e, nil, err, from)
		to = w.now()
		if !errors.Is(err, txn.ErrForgotten) || !errors.As(err, &x) {
			break
		}
		o.Mark = x.Mark
	}
	return o.ID, from, to, err
}

// common removes ended sessions that are in only one of two lists, in runs that forget them: a
// follower learns a little later than the leader that an entry is committed.
func (w *World) common(a, b []admin.ClientSession) (inA, inB []admin.ClientSession) {
	if w.plan.Memory.Retention == 0 {
		return a, b
	}
	in := func(list []admin.ClientSession) func(admin.ClientSession) bool {
		return func(s admin.ClientSession) bool {
			return s.State != txn.SessionOpen && !slices.ContainsFunc(list, func(o admin.ClientSession) bool { return o.ID == s.ID })
		}
	}
	return slices.DeleteFunc(slices.Clone(a), in(b)), slices.DeleteFunc(slices.Clone(b), in(a))
}
