package machine

import (
	"cmp"

	"github.com/txmgr/txmgr/txn"
	"github.com/txmgr/txmgr/txn/machine/internal/slab"
)

// An appointed branch decides by its own end, as one does to which the decision was delegated, but the transaction stays
// active, with its deadline. The flag delegated says both, and the vote of the branch is [txn.VoteDelegated]. What would
// roll an active transaction back (its deadline, the end of its session, a rollback, an operator) makes it preparing
// instead: the application may have committed the branch, or be about to, so recovery fences it and finds out how it
// ended, at once. From then on only that end is accepted, or an operator's statement of it. The cause is kept for the case that the branch has not committed.

// mayDecide reports whether a branch at a participant may be appointed beside the branches of r: its client commits it
// when all others have voted yes, so it has to have their votes, and all of them.
func (m *Machine) mayDecide(participant uint32, r *record) bool {
	if m.participants.list[participant].CoordinatorPrepares || r.is(reenlisted) {
		return false
	}
	for k := r.first; k != 0; {
		b := m.branches.At(k)
		if m.participants.list[b.participant].CoordinatorPrepares || b.vote != 0 && b.vote != txn.VoteDelegated {
			return false
		}
		k = b.next
	}
	return true
}

// appoint appoints the branch that was added to r last.
func (m *Machine) appoint(r *record) {
	r.flags |= delegated
	m.branches.Edit(r.last).vote = txn.VoteDelegated
}

// revoke takes the appointment back from a branch of an active transaction, if one has it: it is enlisted, as any other.
func (m *Machine) revoke(i uint32) {
	r := m.txs.Edit(i)
	if r.is(delegated) {
		k, _ := m.decider(r)
		r.flags &^= delegated
		m.branches.Edit(k).vote = 0
	}
}

// revokeUpTo is revoke by an enlistment that may be a repeat: an appointment that came after it stays.
func (m *Machine) revokeUpTo(i uint32, id txn.BranchID) {
	if r := m.txs.At(i); r.is(delegated) {
		if _, decider := m.decider(r); decider <= id {
			m.revoke(i)
		}
	}
}

// decider is the branch whose end decides r, which is delegated.
func (m *Machine) decider(r *record) (slot uint32, id txn.BranchID) {
	if r.count == 1 {
		return r.first, 1
	}
	for k, id := r.first, txn.BranchID(1); k != 0; id++ {
		b := m.branches.At(k)
		if b.vote == txn.VoteDelegated {
			return k, id
		}
		k = b.next
	}
	return 0, 0
}

// refuseDelegated refuses a command because only the end of a branch decides.
func (m *Machine) refuseDelegated(i uint32) Result {
	_, id := m.decider(m.txs.At(i))
	return m.refuse(i, Delegated, id)
}

// findOut has the end of the appointed branch found out. The transaction has left the survival index.
func (m *Machine) findOut(i uint32, cause txn.Cause) {
	m.leaveSession(i)
	r := m.txs.Edit(i)
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
	r := m.txs.At(i)
	k, id := m.decider(r)
	one := len(c.Votes) == 1 && c.Votes[0] == txn.BranchVote{Branch: id, Vote: txn.VoteNo}
	if !one || r.state != txn.Active && !r.awaitsEnd() || m.branches.At(k).vote != txn.VoteDelegated {
		return m.refuse(i, Delegated, id)
	}
	r = m.undelegate(i)
	m.branches.Edit(k).vote = txn.VoteNo
	if r.cause == 0 {
		r.reason = slab.Store(&m.strings, c.Reason)
	}
	m.decideRollback(i, cmp.Or(r.cause, txn.CauseClient))
	return m.answer(i, OK)
}
