package machine

import (
	"github.com/txmgr/txmgr/timeout/survival"
	"github.com/txmgr/txmgr/txn"
)

// expandCost is what copying a transaction out counts in the limit of a scan.
const expandCost = 16

// IDRange is the ids strictly between two; a zero id is no bound.
type IDRange struct{ After, Before txn.ID }

// Contains reports whether an id is in the range.
func (r *IDRange) Contains(id txn.ID) bool {
	return id.Compare(r.After) > 0 && (r.Before.IsZero() || id.Compare(r.Before) < 0)
}

// overlaps reports whether any id from first to last may be in the range.
func (r *IDRange) overlaps(first, last txn.ID) bool {
	return last.Compare(r.After) > 0 && (r.Before.IsZero() || first.Compare(r.Before) < 0)
}

// Scan returns transactions that have a record, which is all but the finished ones without a
// heuristic outcome, whose ids are in the range and for which match holds. It goes backwards by
// slots, of which the last ones tend to have the newest ids, beginning at from, or at the last
// one when that is zero, until limit of them have been examined; one that is returned counts as
// 16. next is where to go on, zero at the end. In between the machine may apply entries: a
// transaction that has a record all the time is met once. The pointer passed to match is used
// again.
func (m *Machine) Scan(from uint32, limit int, ids IDRange, match func(Summary) bool) (found []Transaction, next uint32) {
	i := from
	if i == 0 || i >= m.txs.Used() {
		i = m.txs.Used() - 1
	}
	for ; i > 0 && limit > 0; i-- {
		limit--
		if r := m.txs.At(i); !r.id.IsZero() && ids.Contains(r.id) && match(m.summary(r)) {
			found = append(found, m.expand(i))
			limit -= expandCost
		}
	}
	return found, i
}

// Expiring returns the transactions that the survival index ends at a tick or earlier, whose
// ids are in the range and for which match holds, in the order of their ends. ok is false, and
// none is returned, when more than limit end until then.
func (m *Machine) Expiring(until survival.Tick, limit int, ids IDRange, match func(Summary) bool) (found []Transaction, ok bool) {
	count := 0
	for end, n := range m.deadlines.Groups(0) {
		if end > until {
			break
		}
		if count += n; count > limit {
			return nil, false
		}
	}
	for slot, end := range m.deadlines.All() {
		if end > until {
			break
		}
		i := uint32(slot)
		if r := m.txs.At(i); ids.Contains(r.id) && match(m.summary(r)) {
			found = append(found, m.expand(i))
		}
	}
	return found, true
}

func (m *Machine) summary(r *record) Summary {
	state, _ := m.effectiveState(r)
	return Summary{ID: r.id, State: state, Heuristic: r.heuristic, Expiry: r.expiry, Began: r.began, DecidedTick: r.decidedTick, Delegated: r.is(delegated) && state == txn.Preparing}
}

// expand returns the transaction in slot i, as [Machine.Get] does.
func (m *Machine) expand(i uint32) (t Transaction) {
	v := m.stateView()
	v.expand(i, &t)
	t.State, t.Cause = m.effectiveState(m.txs.At(i))
	return t
}

// RetainedCursor is where a [Machine.ScanRetained] goes on. The zero RetainedCursor is the
// start, and the end.
type RetainedCursor struct {
	arena  *arena
	end    survival.Tick // of the arena
	chunks int           // of it that are left
}

// ScanRetained is [Machine.Scan] of the finished outcomes without a heuristic outcome. It goes
// backwards, by chunks of some hundred, from what finished last, and does not read chunks all
// of whose ids are out of the range, which may be another one in each call. Outcomes that
// finish in between are not met. One that gets a late heuristic outcome may be missed, and one
// may be met twice.
func (m *Machine) ScanRetained(from RetainedCursor, limit int, ids IDRange, match func(Summary) bool) (found []Transaction, next RetainedCursor) {
	v := m.stateView()
	last := from.end
	if from.arena == nil {
		last = m.retained.ring.Front()
	}
	for end, c := range m.retained.ring.Backward(last) {
		at := RetainedCursor{arena: c.(*arena), end: end, chunks: len(c.(*arena).chunks)}
		if at.arena == from.arena {
			at.chunks = from.chunks // after them are those that were met, or have come since
		}
		for ; at.chunks > 0; at.chunks-- {
			if limit <= 0 {
				return found, at
			}
			limit--
			chunk := &at.arena.chunks[at.chunks-1]
			if !ids.overlaps(chunk.first, chunk.last) {
				continue
			}
			for s := range outcomesIn(at.arena.chunks[at.chunks-1 : at.chunks]) {
				limit--
				if s.removed || !ids.Contains(s.id) || !match(s.outcome.summary(s.id)) {
					continue
				}
				var t Transaction
				v.expandOutcome(s.id, s.outcome, &t)
				found = append(found, t)
				limit -= expandCost
			}
		}
	}
	return found, RetainedCursor{}
}
