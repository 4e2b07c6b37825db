package machine

import "github.com/txmgr/txmgr/txn"

// commit, rollback, timeOut: the three ways to the one decision. Each begins at
// an undecided transaction and ends in decideCommit or decideRollback.

func (m *Machine) commit(c Commit) Result {
	i, ok := m.find(c.ID)
	if !ok {
		return Result{Code: NotFound}
	}
	r := m.txs.at(i)
	if r.state.Commits() {
		return m.answer(i, OK)
	}
	if r.state.Decided() {
		return m.answer(i, Decided)
	}
	no, missing, refusal := m.checkVotes(i, c.Votes)
	if refusal.Code != OK {
		return refusal
	}
	r = m.txs.edit(i)
	for _, v := range c.Votes {
		b := m.branches.edit(m.branch(r, v.Branch))
		b.vote, b.state = v.Vote, txn.BranchPrepared
	}
	r.own = r.own || c.OwnPhaseTwo
	switch {
	case no:
		m.deadlines.Cancel(uint64(i), r.deadline)
		m.decideRollback(i, txn.CauseVoteNo)
	case missing:
		if r.state == txn.Active {
			r.state = txn.Preparing
			m.changed(r)
			m.fx.Work = append(m.fx.Work, r.id)
		}
	default:
		m.deadlines.Cancel(uint64(i), r.deadline)
		m.decideCommit(i)
	}
	if no {
		return m.answer(i, Decided)
	}
	return m.answer(i, OK)
}

// checkVotes looks at the votes given now and before, and changes nothing.
func (m *Machine) checkVotes(i uint32, votes []txn.BranchVote) (no, missing bool, refusal Result) {
	r := m.txs.at(i)
	refuse := func(code Code, id txn.BranchID) (bool, bool, Result) {
		res := m.answer(i, code)
		res.Branch = id
		return false, false, res
	}
	if len(votes) > int(r.count) {
		return refuse(BadVote, votes[r.count].Branch)
	}
	given := m.votes(int(r.count))
	for _, v := range votes {
		k := m.branch(r, v.Branch)
		if k == 0 || v.Vote < txn.VotePrepared || v.Vote > txn.VoteNo {
			return refuse(BadVote, v.Branch)
		}
		before := m.branches.at(k).vote
		if before != 0 && before != v.Vote || given[v.Branch-1] != 0 && given[v.Branch-1] != byte(v.Vote) {
			return refuse(BadVote, v.Branch)
		}
		given[v.Branch-1] = byte(v.Vote)
		no = no || v.Vote == txn.VoteNo
	}
	id := txn.BranchID(1)
	for k := r.first; k != 0; id++ {
		b := m.branches.at(k)
		if b.vote == 0 && given[id-1] == 0 {
			if !no && !m.members.list[b.participant].CoordinatorPrepares {
				return refuse(MissingVote, id)
			}
			missing = true
		}
		k = b.next
	}
	return no, missing, Result{}
}

// votes gives a zeroed scratch with a place for each branch.
func (m *Machine) votes(branches int) []byte {
	if cap(m.scratch) < branches {
		m.scratch = make([]byte, branches)
	}
	s := m.scratch[:branches]
	clear(s)
	return s
}

func (m *Machine) rollback(c Rollback) Result {
	i, ok := m.find(c.ID)
	if !ok {
		return Result{Code: NotFound}
	}
	r := m.txs.at(i)
	switch {
	case r.state.Commits():
		return m.answer(i, Decided)
	case r.state.Decided():
		return m.answer(i, OK)
	case c.Cause == 0 || c.Cause == txn.CauseTimeout || c.Cause > txn.CauseOperator || len(c.Reason) > txn.MaxReason:
		return m.answer(i, Malformed)
	}
	r = m.txs.edit(i)
	r.reason = putText(&m.texts, c.Reason)
	m.deadlines.Cancel(uint64(i), r.deadline)
	m.decideRollback(i, c.Cause)
	return m.answer(i, OK)
}

func (m *Machine) extend(c Extend) Result {
	i, ok := m.find(c.ID)
	if !ok {
		return Result{Code: NotFound}
	}
	r := m.txs.at(i)
	if r.state != txn.Active {
		return m.answer(i, Decided)
	}
	if c.Timeout <= 0 {
		return m.answer(i, Malformed)
	}
	if c.Expiry > r.expiry {
		r = m.txs.edit(i)
		m.deadlines.Cancel(uint64(i), r.deadline)
		r.timeout, r.survival, r.expiry, r.seq = c.Timeout, c.Survival, c.Expiry, m.nextSeq()
		r.deadline = m.deadlines.Add(uint64(i), c.Expiry)
	}
	return m.answer(i, OK)
}

// drain turns one batch of the transactions that are timed out to rolling back.
func (m *Machine) drain() {
	for _, i := range m.due[:m.deadlines.Expire(m.due)] {
		m.timeOut(uint32(i))
	}
}

func (m *Machine) timeOut(i uint32) {
	m.timedOut++
	m.decideRollback(i, txn.CauseTimeout)
}

func (m *Machine) decideCommit(i uint32) {
	m.committed++
	m.txs.edit(i).state = txn.Committing
	m.settle(i, txn.BranchCommitted)
}

func (m *Machine) decideRollback(i uint32, cause txn.Cause) {
	m.rolled++
	r := m.txs.edit(i)
	r.state, r.cause = txn.RollingBack, cause
	m.settle(i, txn.BranchRolledBack)
}

// settle finishes the branches that need no phase two: the read-only ones, and
// those that voted no, which have rolled back already.
func (m *Machine) settle(i uint32, end txn.BranchState) {
	r := m.txs.edit(i)
	m.undone++
	for k := r.first; k != 0; {
		b := m.branches.at(k)
		if b.vote == txn.VoteReadOnly || b.vote == txn.VoteNo {
			m.endBranch(r, m.branches.edit(k), end)
		}
		k = b.next
	}
	if r.open == 0 {
		m.finish(i)
		return
	}
	m.changed(r)
	if r.own && r.state == txn.Committing {
		m.fx.Handoffs = append(m.fx.Handoffs, r.id)
	} else {
		m.fx.Work = append(m.fx.Work, r.id)
	}
}
