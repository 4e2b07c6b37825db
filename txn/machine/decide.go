package machine

import (
	"github.com/txmgr/txmgr/txn"
	"github.com/txmgr/txmgr/txn/machine/internal/slab"
)

// commit, rollback, expireNow and expireBatch (expiry.go), vote, resolve, markEndedByApplication, a begin whose
// deadline has passed (begin.go), and the end of a delegated branch lead to the one decision. Each begins at an undecided transaction
// and ends in decideCommit or decideRollback.

func (m *Machine) commit(c Commit) Result {
	i, ok := m.find(c.ID)
	if !ok {
		return Result{Code: NotFound}
	}
	r := m.txs.At(i)
	switch {
	case r.state.Commits():
		return m.answer(i, OK)
	case r.state.Decided():
		return m.answer(i, Decided)
	case r.is(delegated):
		return m.refuseDelegated(i)
	}
	no, refusal := m.checkVotes(i, c.Votes)
	if refusal.Code != OK {
		return refusal
	}
	missing, wanted := m.missingVotes(r)
	if wanted != 0 && !no {
		return m.refuse(i, MissingVote, wanted)
	}
	m.castVotes(i, c.Votes, c.ClientCompletes)
	r = m.txs.Edit(i)
	switch {
	case no:
		m.deadlines.Cancel(uint64(i), r.deadline)
		m.decideRollback(i, txn.CauseVoteNo)
		return m.answer(i, Decided)
	case missing:
		if r.state == txn.Active {
			r.state = txn.Preparing
			m.emitChange(r)
			m.fx.Pending = append(m.fx.Pending, r.id)
		}
	default:
		m.deadlines.Cancel(uint64(i), r.deadline)
		m.decideCommit(i)
	}
	return m.answer(i, OK)
}

func (m *Machine) rollback(c Rollback) Result {
	i, ok := m.find(c.ID)
	if !ok {
		return Result{Code: NotFound}
	}
	r := m.txs.At(i)
	switch {
	case r.state.Commits():
		return m.answer(i, Decided)
	case r.state.Decided(), r.awaitsEnd():
		return m.answer(i, OK)
	case r.is(delegated) && r.state != txn.Active:
		return m.refuseDelegated(i)
	case c.Cause == 0 || c.Cause == txn.CauseTimeout || c.Cause > txn.CauseOperator || len(c.Reason) > txn.MaxReason:
		return m.answer(i, Malformed)
	}
	r = m.txs.Edit(i)
	r.reason = slab.Store(&m.strings, c.Reason)
	m.deadlines.Cancel(uint64(i), r.deadline)
	m.giveUp(i, c.Cause)
	if c.Cause == txn.CauseOperator {
		m.appendAudit(AuditRecord{Action: ActionRollback, ID: c.ID, Reason: c.Reason})
	}
	return m.answer(i, OK)
}

func (m *Machine) extend(c Extend) Result {
	i, ok := m.find(c.ID)
	if !ok {
		return Result{Code: NotFound}
	}
	r := m.txs.At(i)
	if r.state != txn.Active {
		return m.notActive(i)
	}
	if c.Timeout <= 0 {
		return m.answer(i, Malformed)
	}
	if c.Expiry > r.expiry {
		r = m.txs.Edit(i)
		m.deadlines.Cancel(uint64(i), r.deadline)
		r.timeout, r.survival, r.expiry, r.seq = c.Timeout, c.Survival, c.Expiry, m.nextSeq()
		r.deadline = m.deadlines.Add(uint64(i), c.Expiry)
		m.leaveSession(i)
		m.joinSession(i)
	}
	return m.answer(i, OK)
}

func (m *Machine) decideCommit(i uint32) {
	m.committed++
	m.recordDecision(i).state = txn.Committing
	m.finishVoteless(i, txn.BranchCommitted)
}

func (m *Machine) decideRollback(i uint32, cause txn.Cause) {
	m.rolledBack[cause]++
	r := m.recordDecision(i)
	r.state, r.cause = txn.RollingBack, cause
	m.finishVoteless(i, txn.BranchRolledBack)
}

// recordDecision records when, and by which entry, the one decision was made.
func (m *Machine) recordDecision(i uint32) *record {
	m.leaveSession(i)
	r := m.txs.Edit(i)
	r.decidedAt, r.decidedTick, r.entry = m.wall, m.tick, m.entry
	return r
}

// finishVoteless finishes the branches that need no phase two: the read-only ones, and
// those that voted no, which have rolled back already.
func (m *Machine) finishVoteless(i uint32, end txn.BranchState) {
	r := m.txs.Edit(i)
	m.completing++
	for k := r.first; k != 0; {
		b := m.branches.At(k)
		if b.vote == txn.VoteReadOnly || b.vote == txn.VoteNo {
			m.finishBranch(r, m.branches.Edit(k), end)
		}
		k = b.next
	}
	if r.unfinished == 0 {
		m.finish(i)
		return
	}
	m.emitChange(r)
	if r.is(clientCompletes) && r.state == txn.Committing {
		m.fx.DeferToClient = append(m.fx.DeferToClient, r.id)
	} else {
		m.fx.Pending = append(m.fx.Pending, r.id)
	}
}
