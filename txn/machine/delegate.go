package machine

import (
	"cmp"
	"slices"

	"github.com/txmgr/txmgr/txn"
)

// A delegated transaction is undecided, but neither its deadline nor a command of a client
// decides it: only the end of its only branch does, or of the one that is appointed, which is reported by ReportCompletion, or
// by ReportHeuristic when it cannot be found out, or stated by an operator when its participant is gone (resolve.go).

func (m *Machine) delegate(c Delegate) Result {
	i, ok := m.find(c.ID)
	if !ok {
		return Result{Code: NotFound}
	}
	r := m.txs.At(i)
	k := m.branch(r, c.Branch)
	switch {
	case k == 0:
		return m.refuse(i, NoBranch, c.Branch)
	case r.is(delegated) && r.count > 1:
		return m.refuse(i, NotSoleBranch, c.Branch)
	case r.is(delegated), r.state.Commits() && m.branches.At(k).vote >= txn.VoteDelegated:
		return m.answer(i, OK)
	case r.state != txn.Active:
		return m.answer(i, Decided)
	case r.count != 1, r.is(reenlisted), m.branches.At(k).vote != 0, m.participants.list[m.branches.At(k).participant].CoordinatorPrepares:
		return m.refuse(i, NotSoleBranch, c.Branch)
	}
	r = m.txs.Edit(i)
	m.deadlines.Cancel(uint64(i), r.deadline)
	m.leaveSession(i)
	r.state, r.deadline = txn.Preparing, 0
	r.flags |= delegated
	m.branches.Edit(k).vote = txn.VoteDelegated
	m.delegated++
	m.emitChange(r)
	m.fx.DeferToClient = append(m.fx.DeferToClient, r.id)
	return m.answer(i, OK)
}

// completeDelegated makes the end of the branch that decides the decision. Others that are reported have ended alike.
func (m *Machine) completeDelegated(i uint32, c ReportCompletion) Result {
	k, id := m.decider(m.txs.At(i))
	at := slices.IndexFunc(c.Reports, func(a txn.CompletionReport) bool { return a.Branch == id })
	if at < 0 && len(c.Reports) > 0 && m.txs.At(i).count == 1 {
		return m.refuse(i, BadCompletion, c.Reports[0].Branch)
	}
	if at < 0 {
		return m.answer(i, Undecided)
	}
	end := c.Reports[at].State
	for _, a := range c.Reports {
		if m.branch(m.txs.At(i), a.Branch) == 0 || a.State != end || end != txn.BranchCommitted && end != txn.BranchRolledBack {
			return m.refuse(i, BadCompletion, a.Branch)
		}
	}
	r := m.undelegate(i)
	m.finishBranch(r, m.branches.Edit(k), end)
	if end == txn.BranchCommitted {
		m.othersPrepared(r, k)
	}
	for _, a := range c.Reports {
		m.finishBranch(r, m.branches.Edit(m.branch(r, a.Branch)), end)
	}
	return m.decideBy(i, end, txn.CauseVoteNo)
}

// othersPrepared records the votes that the commit of the branch in slot decider implies.
func (m *Machine) othersPrepared(r *record, decider uint32) {
	for k := r.first; k != 0; {
		b := m.branches.Edit(k)
		if k != decider {
			b.vote, b.state = txn.VotePrepared, txn.BranchPrepared
		}
		k = b.next
	}
}

// heuristicDelegated ends a transaction whose branch may have ended either way: the branch has
// not promised to commit, so the decision is to roll back.
func (m *Machine) heuristicDelegated(i uint32, c ReportHeuristic) Result {
	switch _, id := m.decider(m.txs.At(i)); {
	case c.Branch != id:
		return m.refuse(i, NoBranch, c.Branch)
	case c.Heuristic != txn.HeuristicHazard:
		return m.answer(i, Undecided)
	case len(c.Detail) > txn.MaxReason:
		return m.answer(i, Malformed)
	}
	m.endUnknown(i, txn.BranchRolledBack, c.Detail)
	return m.decideBy(i, txn.BranchRolledBack, txn.CauseVoteNo)
}

// endUnknown finishes the branch that decides, of whose end there is no proof; it is taken to be end. The caller decides at once.
func (m *Machine) endUnknown(i uint32, end txn.BranchState, detail string) *record {
	k, id := m.decider(m.txs.At(i))
	r := m.undelegate(i)
	if end == txn.BranchCommitted {
		m.othersPrepared(r, k)
	}
	r.heuristic = txn.HeuristicHazard
	m.countHeuristic(r.heuristic)
	m.finishHeuristic(r, m.branches.Edit(k), ReportHeuristic{Branch: id, Heuristic: r.heuristic, Detail: detail})
	return r
}

// decideBy decides as the branch has ended, or is taken to have. The cause of a rollback is why the branch was asked, if it has a cause.
func (m *Machine) decideBy(i uint32, end txn.BranchState, cause txn.Cause) Result {
	r := m.txs.Edit(i)
	if end == txn.BranchCommitted {
		m.strings.Drop(r.reason)
		r.cause, r.reason = 0, 0
		m.decideCommit(i)
	} else {
		m.decideRollback(i, cmp.Or(r.cause, cause))
	}
	return m.answer(i, OK)
}

// undelegate takes the decision back from the branch; the caller makes it at once.
func (m *Machine) undelegate(i uint32) *record {
	r := m.txs.Edit(i)
	r.flags &^= delegated
	if r.state == txn.Active {
		m.deadlines.Cancel(uint64(i), r.deadline)
	} else {
		m.delegated--
	}
	return r
}
