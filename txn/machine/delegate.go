package machine

import (
	"cmp"

	"github.com/txmgr/txmgr/txn"
)

// A delegated transaction is undecided, but neither its deadline nor a command of a client
// decides it: only the end of its only branch does, which is reported by ReportCompletion, or
// by ReportHeuristic when it cannot be found out, or stated by an operator when its participant is gone (resolve.go).

func (m *Machine) delegate(c Delegate) Result {
	i, ok := m.find(c.ID)
	if !ok {
		return Result{Code: NotFound}
	}
	r := m.txs.at(i)
	k := m.branch(r, c.Branch)
	switch {
	case k == 0:
		return m.refuse(i, NoBranch, c.Branch)
	case r.is(delegated), r.state.Commits() && m.branches.at(k).vote >= txn.VoteDelegated:
		return m.answer(i, OK)
	case r.state != txn.Active:
		return m.answer(i, Decided)
	case r.count != 1, r.is(reenlisted), m.branches.at(k).vote != 0, m.participants.list[m.branches.at(k).participant].CoordinatorPrepares:
		return m.refuse(i, NotSoleBranch, c.Branch)
	}
	r = m.txs.edit(i)
	m.deadlines.Cancel(uint64(i), r.deadline)
	m.leaveSession(i)
	r.state, r.deadline = txn.Preparing, 0
	r.flags |= delegated
	m.branches.edit(k).vote = txn.VoteDelegated
	m.delegated++
	m.emitChange(r)
	m.fx.DeferToClient = append(m.fx.DeferToClient, r.id)
	return m.answer(i, OK)
}

// completeDelegated makes the branch's end the decision.
func (m *Machine) completeDelegated(i uint32, c ReportCompletion) Result {
	if len(c.Reports) == 0 {
		return m.answer(i, Undecided)
	}
	end := c.Reports[0].State
	for _, a := range c.Reports {
		if a.Branch != 1 || a.State != end || end != txn.BranchCommitted && end != txn.BranchRolledBack {
			return m.refuse(i, BadCompletion, a.Branch)
		}
	}
	r := m.undelegate(i)
	m.finishBranch(r, m.branches.edit(r.first), end)
	return m.decideBy(i, end, txn.CauseVoteNo)
}

// heuristicDelegated ends a transaction whose branch may have ended either way: the branch has
// not promised to commit, so the decision is to roll back.
func (m *Machine) heuristicDelegated(i uint32, c ReportHeuristic) Result {
	switch {
	case c.Branch != 1:
		return m.refuse(i, NoBranch, c.Branch)
	case c.Heuristic != txn.HeuristicHazard:
		return m.answer(i, Undecided)
	case len(c.Detail) > txn.MaxReason:
		return m.answer(i, Malformed)
	}
	m.endUnknown(i, c.Detail)
	return m.decideBy(i, txn.BranchRolledBack, txn.CauseVoteNo)
}

// endUnknown finishes the branch, of whose end there is no proof. The caller decides at once.
func (m *Machine) endUnknown(i uint32, detail string) *record {
	r := m.undelegate(i)
	r.heuristic = txn.HeuristicHazard
	m.countHeuristic(r.heuristic)
	m.finishHeuristic(r, m.branches.edit(r.first), ReportHeuristic{Branch: 1, Heuristic: r.heuristic, Detail: detail})
	return r
}

// decideBy decides as the branch has ended, or is taken to have. The cause of a rollback is why the branch was asked, if it has a cause.
func (m *Machine) decideBy(i uint32, end txn.BranchState, cause txn.Cause) Result {
	r := m.txs.edit(i)
	if end == txn.BranchCommitted {
		m.strings.drop(r.reason)
		r.cause, r.reason = 0, 0
		m.decideCommit(i)
	} else {
		m.decideRollback(i, cmp.Or(r.cause, cause))
	}
	return m.answer(i, OK)
}

// undelegate takes the decision back from the branch; the caller makes it at once.
func (m *Machine) undelegate(i uint32) *record {
	r := m.txs.edit(i)
	r.flags &^= delegated
	if r.state == txn.Active {
		m.deadlines.Cancel(uint64(i), r.deadline)
	} else {
		m.delegated--
	}
	return r
}
