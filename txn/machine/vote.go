package machine

import (
	"github.com/txmgr/txmgr/txn"
	"github.com/txmgr/txmgr/txn/machine/internal/slab"
)

// vote takes votes in without a request for a decision.
func (m *Machine) vote(c Vote) Result {
	i, ok := m.find(c.ID)
	if !ok {
		return Result{Code: NotFound}
	}
	r := m.txs.At(i)
	switch {
	case len(c.Reason) > txn.MaxReason:
		return m.answer(i, Malformed)
	case r.is(delegated):
		return m.voteOfAppointed(i, c)
	case r.state.Commits():
		return m.votesAgain(i, c.Votes)
	}
	no, refusal := m.checkVotes(i, c.Votes)
	switch {
	case r.state.Decided() && no:
		return m.answer(i, OK) // it is rolled back, as the no requires
	case r.state.Decided():
		return m.answer(i, Decided)
	case refusal.Code != OK:
		return refusal
	}
	missing, _ := m.missingVotes(r)
	m.castVotes(i, c.Votes, c.ClientCompletes)
	r = m.txs.Edit(i)
	switch {
	case no:
		r.reason = slab.Store(&m.strings, c.Reason)
		m.deadlines.Cancel(uint64(i), r.deadline)
		m.decideRollback(i, txn.CauseVoteNo)
	case !missing && r.state == txn.Preparing:
		m.deadlines.Cancel(uint64(i), r.deadline)
		m.decideCommit(i)
	}
	return m.answer(i, OK)
}

// votesAgain answers votes that come after the decision to commit.
func (m *Machine) votesAgain(i uint32, votes []txn.BranchVote) Result {
	r := m.txs.At(i)
	for _, v := range votes {
		k := m.branch(r, v.Branch)
		if k == 0 || v.Vote > txn.VoteNo || m.branches.At(k).vote != v.Vote {
			return m.refuse(i, BadVote, v.Branch)
		}
	}
	return m.answer(i, OK)
}

// checkVotes checks the votes given now and before, and changes nothing but the scratch that
// missingVotes reads.
func (m *Machine) checkVotes(i uint32, votes []txn.BranchVote) (no bool, refusal Result) {
	r := m.txs.At(i)
	if len(votes) > int(r.count) {
		return false, m.refuse(i, BadVote, votes[r.count].Branch)
	}
	given := m.votes(int(r.count))
	for _, v := range votes {
		k := m.branch(r, v.Branch)
		if k == 0 || v.Vote < txn.VotePrepared || v.Vote > txn.VoteNo {
			return false, m.refuse(i, BadVote, v.Branch)
		}
		before := m.branches.At(k).vote
		if before != 0 && before != v.Vote || given[v.Branch-1] != 0 && given[v.Branch-1] != byte(v.Vote) {
			return false, m.refuse(i, BadVote, v.Branch)
		}
		given[v.Branch-1] = byte(v.Vote)
		no = no || v.Vote == txn.VoteNo
	}
	return no, Result{}
}

// missingVotes reports whether votes are missing besides those just checked, and
// the first of those that the application has to hand in.
func (m *Machine) missingVotes(r *record) (missing bool, wanted txn.BranchID) {
	given := m.scratch[:r.count]
	id := txn.BranchID(1)
	for k := r.first; k != 0; id++ {
		b := m.branches.At(k)
		if b.vote == 0 && given[id-1] == 0 {
			missing = true
			if !m.participants.list[b.participant].CoordinatorPrepares {
				return true, id
			}
		}
		k = b.next
	}
	return missing, 0
}

// votes returns a zeroed scratch with a place for each branch.
func (m *Machine) votes(branches int) []byte {
	if cap(m.scratch) < branches {
		m.scratch = make([]byte, branches)
	}
	s := m.scratch[:branches]
	clear(s)
	return s
}

// castVotes records votes that were checked.
func (m *Machine) castVotes(i uint32, votes []txn.BranchVote, byClient bool) {
	r := m.txs.Edit(i)
	for _, v := range votes {
		b := m.branches.Edit(m.branch(r, v.Branch))
		b.vote, b.state = v.Vote, txn.BranchPrepared
	}
	if byClient {
		r.flags |= clientCompletes
	}
}
