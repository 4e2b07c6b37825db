package machine

import (
	"slices"

	"github.com/txmgr/txmgr/txn"
)

// EndedByHand reports whether a branch was ended by statements of the application's own.
func (t *Transaction) EndedByHand() bool {
	return slices.ContainsFunc(t.Branches, func(b TransactionBranch) bool { return b.Vote == txn.VoteEndedByHand })
}

// endedByHand takes the fact also after a rollback was decided, and of a branch that has
// voted or ended: another application may have ended its branch before it heard of that.
func (m *Machine) endedByHand(c EndedByHand) Result {
	i, ok := m.find(c.ID)
	if !ok {
		return Result{Code: NotFound}
	}
	r := m.txs.at(i)
	k := m.branch(r, c.Branch)
	switch {
	case k == 0:
		return m.refuse(i, BadVote, c.Branch)
	case len(c.Reason) > txn.MaxReason:
		return m.answer(i, Malformed)
	case m.branches.at(k).vote == txn.VoteEndedByHand:
		return m.answer(i, OK)
	case r.state.Commits():
		return m.answer(i, Decided)
	}
	r = m.txs.edit(i)
	r.flags |= endedByHand
	m.branches.edit(k).vote = txn.VoteEndedByHand
	switch {
	case r.is(delegated):
		m.fx.Work = append(m.fx.Work, r.id) // its session will not come back with the end
	case !r.state.Decided():
		r.reason = putText(&m.texts, c.Reason)
		m.deadlines.Cancel(uint64(i), r.deadline)
		m.decideRollback(i, txn.CauseVoteNo)
	case r.closed():
		m.kept.ring.Remove(r.id) // it comes back with the mark
		m.thawed = 0
		m.close(i)
	}
	return m.answer(i, OK)
}

// SplitByHand gives the commands for the votes that say [txn.VoteEndedByHand], and the
// other votes. A [Vote] does not take the former.
func SplitByHand(id txn.ID, votes []txn.BranchVote, reason string) (told []EndedByHand, left []txn.BranchVote) {
	if !slices.ContainsFunc(votes, func(v txn.BranchVote) bool { return v.Vote == txn.VoteEndedByHand }) {
		return nil, votes
	}
	for _, v := range votes {
		if v.Vote == txn.VoteEndedByHand {
			told = append(told, EndedByHand{ID: id, Branch: v.Branch, Reason: reason})
		} else {
			left = append(left, v)
		}
	}
	return told, left
}
