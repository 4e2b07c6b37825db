package machine

import (
	"cmp"

	"github.com/txmgr/txmgr/txn"
)

// An appointed branch decides by its own end, as one does to which the decision was delegated, but the transaction stays
// active, with its deadline. The flag delegated says both, and the vote of the branch is [txn.VoteDelegated]. What would
// roll an active transaction back (its deadline, the end of its session, a rollback, an operator) makes it preparing
// instead: the application may have committed the branch, or be about to, so recovery fences it and finds out how it
// ended, at once. From then on only that end is accepted, or an operator's statement of it. The cause is kept for the case that the branch has not committed.

// mayDecide reports whether a branch at a participant may be appointed in a transaction of that many branches.
func (m *Machine) mayDecide(participant uint32, branches int) bool {
	return branches == 1 && !m.participants.list[participant].CoordinatorPrepares
}

// appoint appoints the branch that was added to r last.
func (m *Machine) appoint(r *record) {
	r.flags |= delegated
	m.branches.edit(r.last).vote = txn.VoteDelegated
}

// revoke takes the appointment back from the branch of an active transaction, if it has one: it is enlisted, as any other.
func (m *Machine) revoke(i uint32) {
	r := m.txs.edit(i)
	if r.is(delegated) {
		r.flags &^= delegated
		m.branches.edit(r.first).vote = 0
	}
}

// findOut has the end of the appointed branch found out. The transaction has left the survival index.
func (m *Machine) findOut(i uint32, cause txn.Cause) {
	m.leaveSession(i)
	r := m.txs.edit(i)
	r.state, r.cause, r.deadline = txn.Preparing, cause, 0
	m.delegated++
	m.emitChange(r)
	m.fx.Pending = append(m.fx.Pending, r.id)
}

// awaitsEnd reports whether the end of the appointed branch is being found out.
func (r *record) awaitsEnd() bool {
	return r.state == txn.Preparing && r.is(delegated) && r.cause != 0
}

// voteOfAppointed accepts one vote of a branch that decides, a no: its application has rolled it back.
func (m *Machine) voteOfAppointed(i uint32, c Vote) Result {
	r := m.txs.at(i)
	one := len(c.Votes) == 1 && c.Votes[0] == txn.BranchVote{Branch: 1, Vote: txn.VoteNo}
	if !one || r.state != txn.Active && !r.awaitsEnd() || m.branches.at(r.first).vote != txn.VoteDelegated {
		return m.refuse(i, Delegated, 1)
	}
	r = m.undelegate(i)
	m.branches.edit(r.first).vote = txn.VoteNo
	if r.cause == 0 {
		r.reason = storeString(&m.strings, c.Reason)
	}
	m.decideRollback(i, cmp.Or(r.cause, txn.CauseClient))
	return m.answer(i, OK)
}
