package sim

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"maps"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/hashicorp/raft"

	"github.com/txmgr/txmgr/raftfsm"
	"github.com/txmgr/txmgr/timeout/survival"
	"github.com/txmgr/txmgr/txn"
	"github.com/txmgr/txmgr/txn/machine"
)

// replay applies the log once more, and checks each step.
type replay struct {
	w         *World
	fsm       *raftfsm.FSM
	fx        *machine.Effects
	decisions map[txn.ID]txn.State // the decisions
	due       map[txn.ID]time.Duration
	events    map[txn.ID][]*event // calls that granted time
	last      map[txn.ID]machine.Transaction
	txLog     map[txn.ID][]string // what the log did to it, as text
	sessions  *sessionHistory
	steps     []*loggedEntry
	late      time.Duration
	timed     int
}

// check checks everything that can be checked at the end.
func (w *World) check(o *Outcome) {
	images, faults := w.logs.recorded()
	for _, fault := range faults {
		w.violate("logs: %s", fault)
	}
	o.Operations = w.history.check()
	chain, err := w.logs.chain(w.head())
	if err != nil {
		w.violate("logs: %v", err)
		return
	}
	o.Entries, o.Snapshots = len(chain), len(images)
	w.agree(chain)
	r := w.replay(chain, images)
	if r == nil {
		return
	}
	o.Late, o.TimedOut = r.late, r.timed
	w.checkTransactions(r, o)
}

// head is the end of the log. All nodes have the same one by now.
func (w *World) head() (p logPosition) {
	for _, h := range w.hosts {
		h.mu.Lock()
		d := h.disk
		h.mu.Unlock()
		d.mu.Lock()
		if l := d.log[d.last]; l != nil && l.Index > p.index {
			p = logPosition{l.Index, l.Term}
		}
		for _, i := range d.snapshots {
			if i.meta.Index > p.index {
				p = logPosition{i.meta.Index, i.meta.Term}
			}
		}
		d.mu.Unlock()
	}
	return p
}

// agree compares the nodes' logs.
func (w *World) agree(chain []*loggedEntry) {
	for _, h := range w.hosts {
		h.mu.Lock()
		d := h.disk
		h.mu.Unlock()
		d.mu.Lock()
		for i, l := range d.log {
			if i <= uint64(len(chain)) && chain[i-1].log.Term != l.Term {
				w.violate("%s has entry %d of term %d; the log has it of term %d", h.name, i, l.Term, chain[i-1].log.Term)
				break
			}
		}
		d.mu.Unlock()
	}
}

// replay applies the log from its beginning, and compares each snapshot with it.
func (w *World) replay(chain []*loggedEntry, images map[logPosition]*snapshotImage) *replay {
	r := &replay{w: w, decisions: map[txn.ID]txn.State{}, due: map[txn.ID]time.Duration{}, last: map[txn.ID]machine.Transaction{}, events: map[txn.ID][]*event{}, txLog: map[txn.ID][]string{}, sessions: newSessionHistory(w)}
	for _, e := range w.history.events {
		if e.op == opBegin || e.op == opExtend {
			r.events[e.id] = append(r.events[e.id], e)
		}
	}
	r.fsm = raftfsm.New(raftfsm.Config{
		OnApply:   func(_ raftfsm.Position, fx *machine.Effects, _ survival.Tick) { r.fx = fx },
		OnFailure: func(err error) { w.violate("replay: %v", err) },
	})
	wanted := w.compared(images)
	for i, e := range chain {
		if e.log.Type == raft.LogCommand {
			entry, err := raftfsm.DecodeEntry(e.log.Data)
			if err != nil {
				w.violate("entry %d: %v", e.log.Index, err)
				return nil
			}
			gone := r.rebegun(entry)
			r.fx = nil
			r.fsm.Apply(e.log)
			if r.fx == nil {
				return nil
			}
			r.steps = append(r.steps, e)
			r.step(e, entry, gone)
		}
		if img := wanted[logPosition{uint64(i + 1), e.log.Term}]; img != nil {
			r.compare(img)
			for _, model := range w.logs.variantsOf(logPosition{uint64(i + 1), e.log.Term}) {
				r.compare(model)
			}
		}
	}
	r.fsm.View(func(m *machine.Machine) {
		if err := m.CheckInvariants(); err != nil {
			w.violate("the state after the log: %v", err)
		}
	})
	return r
}

// compared selects snapshots: the last one of each node, and a few others.
func (w *World) compared(images map[logPosition]*snapshotImage) map[logPosition]*snapshotImage {
	some := map[logPosition]*snapshotImage{}
	d := newRNG(w.plan.Seed, 5)
	all := slices.SortedFunc(maps.Keys(images), func(a, b logPosition) int { return int(a.index) - int(b.index) })
	for i, p := range all {
		if i == len(all)-1 || d.n(len(all)) < 2 {
			some[p] = images[p]
		}
	}
	return some
}

// compare checks that a snapshot contains the state that the log leads to.
func (r *replay) compare(i *snapshotImage) {
	other := raftfsm.New(raftfsm.Config{})
	if err := other.Restore(io.NopCloser(bytes.NewReader(i.body))); err != nil {
		r.w.violate("snapshot at %d: %v", i.meta.Index, err)
		return
	}
	// Each sum has its own image: computing a hash uses it, and it must not be read concurrently.
	sum := func(f *raftfsm.FSM) (h uint64) {
		f.View(func(m *machine.Machine) { h = m.Hash() })
		return h
	}
	if sum(other) != sum(r.fsm) {
		r.w.violate("snapshot at %d is not the state that the log leads to", i.meta.Index)
	}
}

// step checks the effects of one entry.
func (r *replay) step(e *loggedEntry, entry machine.Entry, gone map[txn.ID]bool) {
	r.applySessions(e, entry)
	for i, c := range entry.Commands {
		code := r.fx.Results[i].Code
		r.noteEntry(e, c, r.fx.Results[i])
		switch c := c.(type) {
		case machine.Begin:
			r.checkBegin(e, c, r.fx.Results[i], gone[c.ID])
			if code == machine.OK && r.due[c.ID] == 0 {
				r.grant(c.ID, opBegin, c.Timeout, e)
			}
		case machine.Extend:
			if code == machine.OK {
				r.grant(c.ID, opExtend, c.Timeout, e)
			}
		}
	}
	for _, c := range r.fx.Changes {
		if !c.State.Decided() {
			continue
		}
		before, known := r.decisions[c.ID]
		if !known {
			r.checkCause(e, c)
		}
		switch {
		case known && before.Commits() != c.State.Commits():
			r.w.violate("%v: decided twice: %v, and %v by entry %d", c.ID, before, c.State, e.log.Index)
		case !known && c.Cause == txn.CauseTimeout:
			r.timed++
			r.w.countFault("timeout")
			late := e.at - r.due[c.ID]
			r.late = max(r.late, late)
			if late < 0 {
				r.w.violate("%v: timed out %v early, by entry %d%s%s", c.ID, -late, e.log.Index, r.txHistory(c.ID), r.ticks())
			}
		}
		r.decisions[c.ID] = c.State
	}
	r.remember()
}

// ticks describes the progress of time in the log, as text: the first and the last entry of each
// term, the host that had it first, when, and its tick.
func (r *replay) ticks() string {
	var b strings.Builder
	for i, e := range r.steps {
		if i > 0 && i < len(r.steps)-1 && r.steps[i-1].log.Term == e.log.Term && r.steps[i+1].log.Term == e.log.Term {
			continue
		}
		if entry, err := raftfsm.DecodeEntry(e.log.Data); err == nil {
			fmt.Fprintf(&b, "\n        %12v  entry %d of term %d, of n%d: tick %d", e.at, e.log.Index, e.log.Term, e.host+1, entry.Tick)
		}
	}
	return b.String()
}

// noteEntry records, as text, what an entry did to a transaction.
func (r *replay) noteEntry(e *loggedEntry, c machine.Command, res machine.Result) {
	f := reflect.ValueOf(c).FieldByName("ID")
	if !f.IsValid() {
		return
	}
	if id, ok := f.Interface().(txn.ID); ok {
		r.txLog[id] = append(r.txLog[id], fmt.Sprintf("%12v  entry %d of term %d, of n%d: %T%.150s -> code %v, %v", e.at, e.log.Index, e.log.Term, e.host+1, c, fmt.Sprintf("%+v", c), res.Code, res.State))
	}
}

// txHistory is all that is known about a transaction, as text.
func (r *replay) txHistory(id txn.ID) string {
	var b strings.Builder
	for _, e := range r.w.history.events {
		if e.id == id {
			fmt.Fprintf(&b, "\n        %12v  until %v: application %d at n%d: call %v: %v, error %v", e.from, e.to, e.client, e.host+1, e.op, e.state, e.err)
		}
	}
	for _, a := range r.txLog[id] {
		b.WriteString("\n        " + a)
	}
	return b.String() + r.w.txNotes(id)
}

// grant records the earliest permitted timeout of a transaction: its time was accepted after the
// call began, at the node that wrote the entry first.
func (r *replay) grant(id txn.ID, op opKind, timeout time.Duration, e *loggedEntry) {
	// Of several calls that may have caused the entry, the first: an entry can be in transit for
	// long.
	from := time.Duration(-1)
	for _, c := range r.events[id] {
		if c.op == op && c.host == e.host && c.timeout == timeout && c.from <= e.at && !c.refused() && from < 0 {
			from = c.from
		}
	}
	if from < 0 {
		r.w.violate("%v: entry %d grants time that no call requested at n%d", id, e.log.Index, e.host+1)
		return
	}
	r.due[id] = max(r.due[id], from+timeout)
}

// checkTransactions compares every transaction with the effects at the participants and the answers
// to the applications.
func (w *World) checkTransactions(r *replay, o *Outcome) {
	r.fsm.View(func(m *machine.Machine) {
		for _, id := range w.ids {
			t, known := r.find(m, id)
			w.checkTransaction(r, id, &t, known, o)
		}
		w.checkSessions(r, m)
		c := m.Counts()
		o.Committed, o.RolledBack = int(c.Committed), int(c.RolledBack.Sum())
	})
	for _, gid := range foreignNames {
		if !w.pg.holds(gid) || !w.maria.holds(gid) {
			w.violate("%s, which belongs to another owner, was modified", gid)
		}
	}
}

func (w *World) checkTransaction(r *replay, id txn.ID, t *machine.Transaction, known bool, o *Outcome) {
	before := w.violationCount()
	defer func() {
		if w.violationCount() > before {
			w.explain(r.txHistory(id))
		}
	}()
	a := w.apps[id]
	servers := map[string]*server{"bank": &w.pg.server, "stock": &w.maria.server, "post": &w.web.server}
	if !known && a.named && len(a.branches) == 1 && !a.readOnly[a.branches[0]] { // its begin was lost, and its branch decided
		n := servers[a.branches[0]].effects(id)
		if n > 1 || a.reported == txn.Committed && n == 0 || a.reported == txn.RolledBack && n != 0 {
			w.violate("%v, which is unknown, has come about %d times, and its application was told %v", id, n, a.reported)
		}
		return
	}
	if !known {
		for name, s := range servers {
			if n := s.effects(id); n != 0 {
				w.violate("%v, which is unknown, has come about at %s", id, name)
			}
		}
		if a.reported == txn.Committed && !(a.named && a.readOnlyEverywhere()) {
			w.violate("%v: the application was told that it is committed, and it is unknown", id)
		}
		return
	}
	doubted := false // the end of a branch is unknown, and reported as such
	at := map[string]*machine.TransactionBranch{}
	for i := range t.Branches {
		at[t.Branches[i].Participant] = &t.Branches[i]
	}
	for _, name := range []string{"bank", "stock", "post"} {
		n := servers[name].effects(id)
		b := at[name]
		want := 0
		if b != nil && t.State.Commits() && !a.readOnly[name] && b.Vote != txn.VoteReadOnly {
			want = 1
		}
		if b != nil && b.Heuristic != 0 {
			if err := w.excused(t, b, name); err != nil {
				w.violate("%v: %s: heuristic %v (%s): %v", id, name, b.Heuristic, b.Detail, err)
			}
			o.Heuristics++
			doubted = true
			continue
		}
		if n != want {
			w.violate("%v is %v, and its work at %s has come about %d times; want %d", id, t.State, name, n, want)
		}
	}
	if t.EndedByApplication() && t.Cause == txn.CauseVoteNo && a.reported == txn.RolledBack {
		w.violate("%v: the application was told that nothing was applied; a branch was ended by hand", id)
	}
	if a.reported != 0 && a.reported.Commits() != t.State.Commits() && !doubted && !a.readOnlyEverywhere() {
		w.violate("%v: the application was told %v; it is %v", id, a.reported, t.State)
	}
}

// readOnlyEverywhere reports whether no branch had work to do. Then PostgreSQL does not wait for
// its disk at a commit, so a crash may lose its xid, and nothing else.
func (a *txRecord) readOnlyEverywhere() bool {
	for _, name := range a.branches {
		if !a.readOnly[name] {
			return false
		}
	}
	return true
}

// excused reports whether a heuristic outcome is right: for a branch that was committed in one
// phase without a marker row and has no commit record left, and for one that its service has committed itself.
func (w *World) excused(t *machine.Transaction, b *machine.TransactionBranch, name string) error {
	if b.Heuristic == txn.HeuristicHazard && b.Vote == txn.VoteDelegated && name == "bank" && !w.apps[t.ID].last && w.faultCount("bank: no proof of an end") > 0 {
		return nil
	}
	if b.Heuristic == txn.HeuristicCommit && name == "post" && w.apps[t.ID].typed {
		return nil
	}
	return errors.New("no branch was ended manually")
}

// String shows an outcome in a line.
func (o *Outcome) String() string {
	return fmt.Sprintf("seed %d: %d transactions (%d committed, %d rolled back, %d timed out, %d heuristic outcomes), %d entries, %d snapshots, %d messages, %d calls checked, settled after %v, latest timeout %v",
		o.Seed, o.Transactions, o.Committed, o.RolledBack, o.TimedOut, o.Heuristics, o.Entries, o.Snapshots, o.Messages, o.Operations, o.Settled.Round(time.Millisecond), o.Late.Round(time.Millisecond))
}
