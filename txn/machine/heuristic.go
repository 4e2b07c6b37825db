package machine

import (
	"cmp"

	"github.com/txmgr/txmgr/txn"
	"github.com/txmgr/txmgr/txn/machine/internal/slab"
)

func (m *Machine) reportHeuristic(c ReportHeuristic) Result {
	i, ok := m.find(c.ID)
	if !ok {
		return Result{Code: NotFound}
	}
	r := m.txs.At(i)
	switch {
	case r.is(delegated) && r.state != txn.Active: // an active one was not asked
		return m.heuristicDelegated(i, c)
	case !r.state.Decided():
		return m.answer(i, Undecided)
	}
	k := m.branch(r, c.Branch)
	if k == 0 {
		return m.answer(i, NoBranch)
	}
	b := m.branches.At(k)
	wrong := c.Heuristic == txn.HeuristicHazard ||
		c.Heuristic == txn.HeuristicRollback && r.state.Commits() ||
		c.Heuristic == txn.HeuristicCommit && !r.state.Commits()
	known := b.state == txn.BranchHeuristic
	switch {
	case !wrong || len(c.Detail) > txn.MaxReason:
		return m.answer(i, Malformed)
	case known && b.heuristic == c.Heuristic:
		return m.answer(i, OK)
	case !b.acceptsHeuristic(c, r.isFinal()):
		return m.answer(i, BadCompletion)
	}
	r, b = m.txs.Edit(i), m.branches.Edit(k)
	m.strings.Drop(b.detail)
	m.finishHeuristic(r, b, c)
	m.updateHeuristic(i)
	return m.answer(i, OK)
}

// finishHeuristic ends a branch that has no detail otherwise than decided.
func (m *Machine) finishHeuristic(r *record, b *branch, c ReportHeuristic) {
	b.heuristic, b.detail = c.Heuristic, slab.Store(&m.strings, c.Detail)
	m.finishBranch(r, b, txn.BranchHeuristic)
	m.fx.Heuristics = append(m.fx.Heuristics, BranchHeuristic{
		ID: r.id, Branch: c.Branch, Participant: m.participants.list[b.participant].Name, Heuristic: c.Heuristic, Detail: c.Detail,
	})
}

// acceptsHeuristic reports whether the branch accepts the heuristic outcome: as its end, as the
// proof that was missing before, or as the proof that its confirmation was wrong. A read-only
// branch cannot end otherwise than decided.
func (b *branch) acceptsHeuristic(c ReportHeuristic, closed bool) bool {
	if !b.state.Finished() || b.heuristic == txn.HeuristicHazard && !closed {
		return true
	}
	return c.Heuristic != txn.HeuristicHazard && b.vote != txn.VoteReadOnly && !c.Legacy
}

// updateHeuristic derives the transaction's heuristic outcome from its branches, and finishes
// the transaction when no branch is left.
func (m *Machine) updateHeuristic(i uint32) {
	r := m.txs.Edit(i)
	was := r.heuristic
	r.heuristic = m.deriveHeuristic(r)
	if (was == 0) != (r.heuristic == 0) {
		m.countHeuristic(r.heuristic)
	}
	switch {
	case r.unfinished == 0 && !r.state.Finished():
		m.finish(i)
	case was != r.heuristic:
		m.emitChange(r)
		if r.isFinal() {
			m.startRetention(i)
		}
	}
}

func (m *Machine) countHeuristic(h txn.Heuristic) {
	if h == 0 {
		m.heuristics--
	} else {
		m.heuristics++
	}
}

// reportedHeuristic is the heuristic outcome that answers report. For a transaction that is
// rolled back it includes one that an operator has forgotten, since forgetting does not undo
// what was applied.
func (m *Machine) reportedHeuristic(r *record) txn.Heuristic {
	if r.heuristic != 0 || r.state.Commits() || !r.state.Decided() {
		return r.heuristic
	}
	return m.deriveHeuristic(r)
}

// reportedHeuristic is the same for an expanded transaction.
func (t *Transaction) reportedHeuristic() (h txn.Heuristic) {
	for _, b := range t.Branches {
		h = cmp.Or(h, b.Heuristic)
	}
	return cmp.Or(t.Heuristic, h)
}

// deriveHeuristic is mixed when one branch ended otherwise than decided and another as decided
// (or is still open). When all ended otherwise than decided, it is the outcome of these
// branches. Otherwise it may be unknown.
func (m *Machine) deriveHeuristic(r *record) txn.Heuristic {
	var wrong txn.Heuristic
	var wrongs, unknowns uint16
	for k := r.first; k != 0; {
		b := m.branches.At(k)
		switch b.heuristic {
		case 0:
		case txn.HeuristicHazard:
			unknowns++
		default:
			wrongs++
			wrong = b.heuristic
		}
		k = b.next
	}
	switch {
	case wrongs == r.count:
		return wrong
	case wrongs > 0:
		return txn.HeuristicMixed
	case unknowns > 0:
		return txn.HeuristicHazard
	}
	return 0
}
