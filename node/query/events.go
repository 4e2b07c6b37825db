package query

import (
	"iter"

	"github.com/txmgr/txmgr/timeout/survival"
	"github.com/txmgr/txmgr/txn"
	"github.com/txmgr/txmgr/txn/admin"
	"github.com/txmgr/txmgr/txn/machine"
)

// Events yields the changes that match a filter. Its participant, label and age parts are looked up
// at each event. An error is the last element.
func (r Reader) Events(f admin.Filter, changes iter.Seq2[machine.Change, error]) iter.Seq2[admin.Event, error] {
	return func(yield func(admin.Event, error) bool) {
		match := r.matcher(admin.Filter{States: f.States, Prefix: f.Prefix})
		for c, err := range changes {
			if err != nil {
				yield(admin.Event{}, txn.Wrap("watch", txn.ID{}, err))
				return
			}
			if !match(machine.Summary{ID: c.ID, State: c.State}) {
				continue
			}
			e, ok := r.event(c, f)
			if ok && !yield(e, nil) {
				return
			}
		}
	}
}

func (r Reader) event(c machine.Change, f admin.Filter) (admin.Event, bool) {
	var t machine.Transaction
	var known bool
	var tick survival.Tick
	r.View(func(m *machine.Machine) {
		t, known = m.Get(c.ID)
		tick = m.Tick()
	})
	e := admin.Event{ID: c.ID, Name: t.Name, State: c.State, Cause: c.Cause, Heuristic: c.Heuristic, Tick: uint64(tick), Time: r.Wall().UTC()}
	return e, !known || fits(f, &t)
}
