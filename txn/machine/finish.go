package machine

import (
	"github.com/txmgr/txmgr/txn"
	"github.com/txmgr/txmgr/txn/machine/internal/slab"
)

func (m *Machine) reportCompletion(c ReportCompletion) Result {
	i, ok := m.find(c.ID)
	if !ok {
		return Result{Code: NotFound}
	}
	r := m.txs.At(i)
	switch {
	case !r.state.Decided() && !r.is(delegated):
		return m.answer(i, Undecided)
	case len(c.Reports) > int(r.count):
		return m.answer(i, BadCompletion)
	case r.is(delegated):
		return m.completeDelegated(i, c)
	}
	end := r.decidedOutcome()
	for _, a := range c.Reports {
		k := m.branch(r, a.Branch)
		if k == 0 || !m.branches.At(k).acceptsCompletion(a.State, end) {
			return m.refuse(i, BadCompletion, a.Branch)
		}
	}
	if r.isFinal() {
		return m.answer(i, OK)
	}
	r = m.txs.Edit(i)
	for _, a := range c.Reports {
		b := m.branches.Edit(m.branch(r, a.Branch))
		if b.state == txn.BranchHeuristic {
			m.clearHeuristic(b)
		}
		m.finishBranch(r, b, end)
	}
	m.updateHeuristic(i)
	return m.answer(i, OK)
}

// isFinal reports whether nothing about r can change any more: it is finished and has no
// heuristic outcome, or an operator has forgotten that.
func (r *record) isFinal() bool { return r.state.Finished() && r.heuristic == 0 }

// decidedOutcome is how every branch of a decided transaction has to end.
func (r *record) decidedOutcome() txn.BranchState {
	if r.state.Commits() {
		return txn.BranchCommitted
	}
	return txn.BranchRolledBack
}

// acceptsCompletion reports whether the completion report is new, a repeat, or the proof that
// was missing before.
func (b *branch) acceptsCompletion(ack, end txn.BranchState) bool {
	if ack != end {
		return false
	}
	return b.state != txn.BranchHeuristic || b.heuristic == txn.HeuristicHazard
}

func (m *Machine) clearHeuristic(b *branch) {
	m.strings.Drop(b.detail)
	b.heuristic, b.detail = 0, 0
}

// finishBranch marks an unfinished branch as finished; a finished one stays.
func (m *Machine) finishBranch(r *record, b *branch, end txn.BranchState) {
	if !b.state.Finished() {
		r.unfinished--
		m.participants.list[b.participant].unfinished--
	}
	b.state = end
}

// finish ends a decided transaction, all of whose branches are finished.
func (m *Machine) finish(i uint32) {
	r := m.txs.Edit(i)
	m.completing--
	if r.state == txn.Committing {
		r.state = txn.Committed
	} else {
		r.state = txn.RolledBack
	}
	r.ended = m.tick
	m.emitChange(r)
	if r.heuristic == 0 {
		m.startRetention(i)
	}
}

// startRetention begins the retention of a finished outcome. What only the participants needed,
// and may be large, is dropped.
func (m *Machine) startRetention(i uint32) {
	r := m.txs.Edit(i)
	r.seq, r.ended = m.nextSeq(), m.tick
	if r.is(beforeRestore) {
		r.flags &^= beforeRestore
		m.restored--
	}
	for k := r.first; k != 0; {
		b := m.branches.Edit(k)
		m.strings.Drop(b.payload)
		m.strings.Drop(b.sessionRef)
		m.strings.Drop(b.replaced)
		b.payload, b.sessionRef, b.replaced = 0, 0, 0
		k = b.next
	}
	m.toRetain = append(m.toRetain, i)
}

func (m *Machine) forget(c Forget) Result {
	i, ok := m.find(c.ID)
	if !ok {
		return Result{Code: NotFound}
	}
	r := m.txs.At(i)
	switch {
	case len(c.Reason) > txn.MaxReason || len(c.By) > MaxBy:
		return m.answer(i, Malformed)
	case !r.state.Finished():
		return m.answer(i, Unfinished)
	case r.heuristic == 0:
		return m.forgetResult(i)
	}
	r = m.txs.Edit(i)
	r.heuristic = 0
	m.countHeuristic(0)
	m.strings.Drop(r.reason)
	r.reason = slab.Store(&m.strings, c.Reason)
	m.appendAudit(AuditRecord{Action: ActionForget, ID: c.ID, By: c.By, Reason: c.Reason})
	m.emitChange(r)
	m.startRetention(i)
	return m.forgetResult(i)
}

// forgetResult is the answer to the operator, who knows of the heuristic outcome: there is none
// any more.
func (m *Machine) forgetResult(i uint32) Result {
	res := m.answer(i, OK)
	res.Heuristic = 0
	return res
}

func (m *Machine) drop(i uint32) {
	r := m.txs.At(i)
	delete(m.index, r.id)
	m.strings.Drop(r.name)
	m.strings.Drop(r.labels)
	m.strings.Drop(r.reason)
	for k := r.first; k != 0; {
		b := m.branches.At(k)
		next := b.next
		m.strings.Drop(b.payload)
		m.strings.Drop(b.sessionRef)
		m.strings.Drop(b.replaced)
		m.strings.Drop(b.detail)
		m.branches.Give(k)
		k = next
	}
	m.txs.Give(i)
}
