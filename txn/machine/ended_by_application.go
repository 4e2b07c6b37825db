package machine

import (
	"cmp"
	"slices"

	"github.com/txmgr/txmgr/txn"
	"github.com/txmgr/txmgr/txn/machine/internal/slab"
)

// EndedByApplication reports whether a branch was ended by statements of the application's own.
func (t *Transaction) EndedByApplication() bool {
	return slices.ContainsFunc(t.Branches, func(b TransactionBranch) bool { return b.Vote == txn.VoteEndedByApplication })
}

// markEndedByApplication accepts the fact also after a rollback was decided, and for a branch
// that has voted or ended: another application may have ended its branch before it learnt of
// that.
func (m *Machine) markEndedByApplication(c EndedByApplication) Result {
	i, ok := m.find(c.ID)
	if !ok {
		return Result{Code: NotFound}
	}
	r := m.txs.At(i)
	k := m.branch(r, c.Branch)
	switch {
	case k == 0:
		return m.refuse(i, BadVote, c.Branch)
	case len(c.Reason) > txn.MaxReason:
		return m.answer(i, Malformed)
	case m.branches.At(k).vote == txn.VoteEndedByApplication:
		return m.answer(i, OK)
	case r.state.Commits():
		return m.answer(i, Decided)
	}
	r = m.txs.Edit(i)
	r.flags |= endedByApplication
	if r.is(delegated) && r.count > 1 { // its client, which alone commits the branch that decides, does so no more
		decider, _ := m.decider(r)
		r = m.undelegate(i)
		m.branches.Edit(decider).vote = 0
	}
	m.branches.Edit(k).vote = txn.VoteEndedByApplication
	switch {
	case r.is(delegated) && r.state == txn.Active:
		r.reason = slab.Store(&m.strings, c.Reason)
		m.deadlines.Cancel(uint64(i), r.deadline)
		m.findOut(i, txn.CauseVoteNo)
	case r.is(delegated):
		m.fx.Pending = append(m.fx.Pending, r.id) // its application will not report its end
	case !r.state.Decided():
		if r.cause == 0 { // otherwise the reason is that of the cause
			r.reason = slab.Store(&m.strings, c.Reason)
		}
		m.deadlines.Cancel(uint64(i), r.deadline)
		m.decideRollback(i, cmp.Or(r.cause, txn.CauseVoteNo))
	case r.isFinal():
		m.retained.ring.Remove(r.id) // it is put back with the fact recorded
		m.loaded = 0
		m.startRetention(i)
	}
	return m.answer(i, OK)
}

// SplitEndedByApplication returns the commands for the votes that are
// [txn.VoteEndedByApplication], and the other votes. A [Vote] does not take the former.
func SplitEndedByApplication(id txn.ID, votes []txn.BranchVote, reason string) (told []EndedByApplication, left []txn.BranchVote) {
	if !slices.ContainsFunc(votes, func(v txn.BranchVote) bool { return v.Vote == txn.VoteEndedByApplication }) {
		return nil, votes
	}
	for _, v := range votes {
		if v.Vote == txn.VoteEndedByApplication {
			told = append(told, EndedByApplication{ID: id, Branch: v.Branch, Reason: reason})
		} else {
			left = append(left, v)
		}
	}
	return told, left
}
