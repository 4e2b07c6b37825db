package machine

import (
	"cmp"

	"github.com/txmgr/txmgr/txn"
)

func (m *Machine) done(c Done) Result {
	i, ok := m.find(c.ID)
	if !ok {
		return Result{Code: NotFound}
	}
	r := m.txs.at(i)
	switch {
	case !r.state.Decided() && !r.is(delegated):
		return m.answer(i, Undecided)
	case len(c.Acks) > int(r.count):
		return m.answer(i, BadAck)
	case r.is(delegated):
		return m.doneDelegated(i, c)
	}
	end := r.ending()
	for _, a := range c.Acks {
		k := m.branch(r, a.Branch)
		if k == 0 || !m.branches.at(k).accepts(a.State, end) {
			return m.refuse(i, BadAck, a.Branch)
		}
	}
	if r.closed() {
		return m.answer(i, OK)
	}
	r = m.txs.edit(i)
	for _, a := range c.Acks {
		b := m.branches.edit(m.branch(r, a.Branch))
		if b.state == txn.BranchHazard {
			m.clearHazard(b)
		}
		m.endBranch(r, b, end)
	}
	m.weigh(i)
	return m.answer(i, OK)
}

// closed reports whether nothing about r can change any more: it is finished
// and has no hazard, or that was forgotten.
func (r *record) closed() bool { return r.state.Finished() && r.hazard == 0 }

// ending is how every branch of a decided transaction has to end.
func (r *record) ending() txn.BranchState {
	if r.state.Commits() {
		return txn.BranchCommitted
	}
	return txn.BranchRolledBack
}

// accepts reports whether the acknowledgement is new, a repeat, or the proof
// that was missing before.
func (b *branch) accepts(ack, end txn.BranchState) bool {
	if ack != end {
		return false
	}
	return b.state != txn.BranchHazard || b.hazard == txn.HazardUnknown
}

func (m *Machine) clearHazard(b *branch) {
	m.texts.drop(b.detail)
	b.hazard, b.detail = 0, 0
}

// endBranch marks an unfinished branch as finished; a finished one stays.
func (m *Machine) endBranch(r *record, b *branch, end txn.BranchState) {
	if !b.state.Finished() {
		r.open--
		m.parts.list[b.participant].open--
	}
	b.state = end
}

func (m *Machine) hazard(c Hazard) Result {
	i, ok := m.find(c.ID)
	if !ok {
		return Result{Code: NotFound}
	}
	r := m.txs.at(i)
	switch {
	case r.is(delegated):
		return m.hazardDelegated(i, c)
	case !r.state.Decided():
		return m.answer(i, Undecided)
	}
	k := m.branch(r, c.Branch)
	if k == 0 {
		return m.answer(i, NoBranch)
	}
	b := m.branches.at(k)
	wrong := c.Hazard == txn.HazardUnknown ||
		c.Hazard == txn.HazardRolledBack && r.state.Commits() ||
		c.Hazard == txn.HazardCommitted && !r.state.Commits()
	known := b.state == txn.BranchHazard
	switch {
	case !wrong || len(c.Detail) > txn.MaxReason:
		return m.answer(i, Malformed)
	case known && b.hazard == c.Hazard:
		return m.answer(i, OK)
	case !b.accuses(c, r.closed()):
		return m.answer(i, BadAck)
	}
	r, b = m.txs.edit(i), m.branches.edit(k)
	m.texts.drop(b.detail)
	m.endInHazard(r, b, c)
	m.weigh(i)
	return m.answer(i, OK)
}

// endInHazard ends a branch that has no detail otherwise than decided.
func (m *Machine) endInHazard(r *record, b *branch, c Hazard) {
	b.hazard, b.detail = c.Hazard, putText(&m.texts, c.Detail)
	m.endBranch(r, b, txn.BranchHazard)
	m.fx.Hazards = append(m.fx.Hazards, BranchHazard{
		ID: r.id, Branch: c.Branch, Participant: m.parts.list[b.participant].Name, Hazard: c.Hazard, Detail: c.Detail,
	})
}

// accuses reports whether the branch takes the hazard on: as its end, as the
// proof that was missing before, or as the proof that its acknowledgement was
// wrong. A read-only branch has no wrong end.
func (b *branch) accuses(c Hazard, closed bool) bool {
	if !b.state.Finished() || b.hazard == txn.HazardUnknown && !closed {
		return true
	}
	return c.Hazard != txn.HazardUnknown && b.vote != txn.VoteReadOnly && !c.Legacy
}

// weigh derives the transaction's hazard from its branches, and finishes it when
// no branch is left.
func (m *Machine) weigh(i uint32) {
	r := m.txs.edit(i)
	was := r.hazard
	r.hazard = m.derivedHazard(r)
	if (was == 0) != (r.hazard == 0) {
		m.countHazard(r.hazard)
	}
	switch {
	case r.open == 0 && !r.state.Finished():
		m.finish(i)
	case was != r.hazard:
		m.changed(r)
		if r.closed() {
			m.close(i)
		}
	}
}

func (m *Machine) countHazard(h txn.Hazard) {
	if h == 0 {
		m.hazards--
	} else {
		m.hazards++
	}
}

// everHazard is the hazard that answers name. Of a transaction that is rolled back that is
// also one which a person has forgotten, since that does not undo what was applied.
func (m *Machine) everHazard(r *record) txn.Hazard {
	if r.hazard != 0 || r.state.Commits() || !r.state.Decided() {
		return r.hazard
	}
	return m.derivedHazard(r)
}

// everHazard is that of a transaction whose branches are spread out.
func (t *Transaction) everHazard() (h txn.Hazard) {
	for _, b := range t.Branches {
		h = cmp.Or(h, b.Hazard)
	}
	return cmp.Or(t.Hazard, h)
}

// derivedHazard: one wrong branch among right (or still open) ones makes the
// transaction mixed; all wrong alike makes it that; otherwise it may be unknown.
func (m *Machine) derivedHazard(r *record) txn.Hazard {
	var wrong txn.Hazard
	var wrongs, unknowns uint16
	for k := r.first; k != 0; {
		b := m.branches.at(k)
		switch b.hazard {
		case 0:
		case txn.HazardUnknown:
			unknowns++
		default:
			wrongs++
			wrong = b.hazard
		}
		k = b.next
	}
	switch {
	case wrongs == r.count:
		return wrong
	case wrongs > 0:
		return txn.HazardMixed
	case unknowns > 0:
		return txn.HazardUnknown
	}
	return 0
}

// finish ends a decided transaction, all of whose branches are finished.
func (m *Machine) finish(i uint32) {
	r := m.txs.edit(i)
	m.undone--
	if r.state == txn.Committing {
		r.state = txn.Committed
	} else {
		r.state = txn.RolledBack
	}
	r.ended = m.tick
	m.changed(r)
	if r.hazard == 0 {
		m.close(i)
	}
}

// close begins the retention of a finished outcome. What only the participants
// needed, and may be large, is not kept.
func (m *Machine) close(i uint32) {
	r := m.txs.edit(i)
	r.seq, r.ended = m.nextSeq(), m.tick
	for k := r.first; k != 0; {
		b := m.branches.edit(k)
		m.texts.drop(b.payload)
		m.texts.drop(b.session)
		m.texts.drop(b.replaced)
		b.payload, b.session, b.replaced = 0, 0, 0
		k = b.next
	}
	m.closed = append(m.closed, i)
}

func (m *Machine) forget(c Forget) Result {
	i, ok := m.find(c.ID)
	if !ok {
		return Result{Code: NotFound}
	}
	r := m.txs.at(i)
	switch {
	case len(c.Reason) > txn.MaxReason || len(c.By) > MaxBy:
		return m.answer(i, Malformed)
	case !r.state.Finished():
		return m.answer(i, Unfinished)
	case r.hazard == 0:
		return m.forgotten(i)
	}
	r = m.txs.edit(i)
	r.hazard = 0
	m.countHazard(0)
	m.texts.drop(r.reason)
	r.reason = putText(&m.texts, c.Reason)
	m.note(AuditRecord{Action: ActionForget, ID: c.ID, By: c.By, Reason: c.Reason})
	m.changed(r)
	m.close(i)
	return m.forgotten(i)
}

// forgotten answers the person who knows of the hazard: it is none any more.
func (m *Machine) forgotten(i uint32) Result {
	res := m.answer(i, OK)
	res.Hazard = 0
	return res
}

func (m *Machine) drop(i uint32) {
	r := m.txs.at(i)
	delete(m.index, r.id)
	m.texts.drop(r.name)
	m.texts.drop(r.labels)
	m.texts.drop(r.reason)
	for k := r.first; k != 0; {
		b := m.branches.at(k)
		next := b.next
		m.texts.drop(b.payload)
		m.texts.drop(b.session)
		m.texts.drop(b.replaced)
		m.texts.drop(b.detail)
		m.branches.give(k)
		k = next
	}
	m.txs.give(i)
}
