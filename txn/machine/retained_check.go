package machine

import (
	"fmt"

	"github.com/txmgr/txmgr/timeout/survival"
	"github.com/txmgr/txmgr/txn"
)

// checkRetained verifies the belt.
func (a *recount) checkRetained(m *Machine) error {
	k := &m.retained
	if k.ring.Now() != k.rotationAt(m.tick) || len(m.toRetain) != 0 || m.loaded != 0 {
		return fmt.Errorf("the belt has turned %d times at tick %d of %d each; %d records wait for it, and %d is of an outcome", k.ring.Now(), m.tick, k.step, len(m.toRetain), m.loaded)
	}
	v := m.stateView()
	var t Transaction
	for end, c := range k.ring.Containers() {
		last, n := uint64(0), 0
		for id, o := range c.All() {
			v.expandOutcome(id, o, &t)
			if err := m.checkOutcome(&t, end); err != nil {
				return fmt.Errorf("%v on the belt: %w", id, err)
			}
			if t.Seq <= last {
				return fmt.Errorf("%v on the belt: place %d after %d", id, t.Seq, last)
			}
			last = t.Seq
			n++
		}
		if n != c.Len() {
			return fmt.Errorf("what falls off at turn %d are %d, and it says %d", end, n, c.Len())
		}
		a.retained += n
	}
	if k.ring.Len() > 0 && k.overLimit() {
		return fmt.Errorf("%d outcomes are kept, where %d are enough, and %d of them fall off next", k.ring.Len(), k.limit, k.dueCount())
	}
	return nil
}

// checkOutcome verifies an outcome that is dropped at a rotation of the belt.
func (m *Machine) checkOutcome(t *Transaction, end survival.Tick) error {
	_, open := m.index[t.ID]
	o, at, ok := m.retained.ring.Get(t.ID)
	switch {
	case open || !ok || at != end || o.ended() != t.Ended || t.Ended > m.tick:
		return fmt.Errorf("finished at tick %d, falls off at turn %d; found: %v, for turn %d; has a record: %v", t.Ended, end, ok, at, open)
	case !t.State.Finished() || t.Heuristic != 0 || (t.Cause != 0) != (t.State == txn.RolledBack):
		return fmt.Errorf("state %v, cause %q, heuristic %q", t.State, t.Cause, t.Heuristic)
	}
	for _, b := range t.Branches {
		if !b.State.Finished() || (b.State == txn.BranchHeuristic) != (b.Heuristic != 0) {
			return fmt.Errorf("branch in state %v, heuristic %q", b.State, b.Heuristic)
		}
	}
	// An outcome from before there was a belt may be late after a restore.
	if over := m.retained.ring.Now() + 1; m.retained.rotationAt(t.Ended)+m.retained.ring.Front()-m.retained.ring.Now() != end && end != over {
		return fmt.Errorf("finished at tick %d, falls off at turn %d", t.Ended, end)
	}
	return nil
}
