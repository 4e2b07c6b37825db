package machine

import (
	"fmt"

	"github.com/txmgr/txmgr/timeout/survival"
	"github.com/txmgr/txmgr/txn"
)

// checkKept walks the belt.
func (a *audit) checkKept(m *Machine) error {
	k := &m.kept
	if k.ring.Now() != k.turn(m.tick) || len(m.closed) != 0 || m.thawed != 0 {
		return fmt.Errorf("the belt has turned %d times at tick %d of %d each; %d records wait for it, and %d is of an outcome", k.ring.Now(), m.tick, k.step, len(m.closed), m.thawed)
	}
	v := m.image()
	var t Transaction
	for end, c := range k.ring.Containers() {
		last, n := uint64(0), 0
		for id, o := range c.All() {
			v.spreadOutcome(id, o, &t)
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
		a.kept += n
	}
	if k.ring.Len() > 0 && k.tooMany() {
		return fmt.Errorf("%d outcomes are kept, where %d are enough, and %d of them fall off next", k.ring.Len(), k.retain, k.first())
	}
	return nil
}

// checkOutcome looks at an outcome that falls off at a turn of the belt.
func (m *Machine) checkOutcome(t *Transaction, end survival.Tick) error {
	_, open := m.index[t.ID]
	o, at, ok := m.kept.ring.Get(t.ID)
	switch {
	case open || !ok || at != end || o.ended() != t.Ended || t.Ended > m.tick:
		return fmt.Errorf("finished at tick %d, falls off at turn %d; found: %v, for turn %d; has a record: %v", t.Ended, end, ok, at, open)
	case !t.State.Finished() || t.Hazard != 0 || (t.Cause != 0) != (t.State == txn.RolledBack):
		return fmt.Errorf("state %v, cause %q, hazard %q", t.State, t.Cause, t.Hazard)
	}
	for _, b := range t.Branches {
		if !b.State.Finished() || (b.State == txn.BranchHazard) != (b.Hazard != 0) {
			return fmt.Errorf("branch in state %v, hazard %q", b.State, b.Hazard)
		}
	}
	// One restored from the time before it was on a belt may be late.
	if over := m.kept.ring.Now() + 1; m.kept.turn(t.Ended)+m.kept.ring.Front()-m.kept.ring.Now() != end && end != over {
		return fmt.Errorf("finished at tick %d, falls off at turn %d", t.Ended, end)
	}
	return nil
}
