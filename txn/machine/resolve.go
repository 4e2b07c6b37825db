package machine

import (
	"cmp"

	"github.com/txmgr/txmgr/txn"
	"github.com/txmgr/txmgr/txn/machine/internal/slab"
)

// resolve carries out the statement of an operator. The same statement again is a repeat and
// changes nothing: a retry of the one that rolled the transaction back must not be taken for
// the statement that its branches have ended.
func (m *Machine) resolve(c Resolve) Result {
	i, ok := m.find(c.ID)
	if !ok {
		return Result{Code: NotFound}
	}
	r := m.txs.At(i)
	switch {
	case c.Outcome != txn.BranchCommitted && c.Outcome != txn.BranchRolledBack,
		c.Reason == "", len(c.Reason) > txn.MaxReason, len(c.By) > MaxBy, c.Undecided && c.Decides:
		return m.answer(i, Malformed)
	case c.Branch != 0 && m.branch(r, c.Branch) == 0:
		return m.refuse(i, NoBranch, c.Branch)
	case r.is(delegated) && c.Decides && (r.awaitsEnd() || r.state != txn.Active && r.expiry <= m.tick):
		return m.resolveDelegated(i, &c) // no repeat: it would be decided
	case m.auditLog.isRepeat(&c), c.Undecided && r.state.Decided() && !r.state.Commits():
		return m.answer(i, OK)
	case r.is(delegated) && r.state != txn.Active:
		return m.refuseDelegated(i)
	case r.state.Decided() && c.Undecided:
		return m.answer(i, Decided)
	case r.state.Decided():
		return m.resolveBranches(i, &c)
	case c.Outcome == txn.BranchCommitted || c.Decides:
		return m.answer(i, Undecided)
	}
	r = m.txs.Edit(i)
	r.reason = slab.Store(&m.strings, c.Reason)
	m.deadlines.Cancel(uint64(i), r.deadline)
	m.giveUp(i, txn.CauseOperator)
	m.auditResolve(&c)
	return m.answer(i, OK)
}

// resolveDelegated makes the stated end of the branch that decides the decision. A statement is no proof: the heuristic outcome says
// whose it is, until a proof is reported or an operator forgets it, and no caller is told that surely nothing was applied.
func (m *Machine) resolveDelegated(i uint32, c *Resolve) Result {
	if _, id := m.decider(m.txs.At(i)); c.Branch != 0 && c.Branch != id {
		return m.refuse(i, Delegated, id)
	}
	if r := m.endUnknown(i, c.Outcome, c.Outcome.String()+", "+c.statement()); r.cause == 0 {
		r.reason = slab.Store(&m.strings, c.Reason)
	}
	m.auditResolve(c)
	return m.decideBy(i, c.Outcome, txn.CauseOperator)
}

// resolveBranches ends the branches that are meant and in doubt, as stated.
func (m *Machine) resolveBranches(i uint32, c *Resolve) Result {
	r := m.txs.At(i)
	some := false
	id := txn.BranchID(1)
	for k := r.first; k != 0 && !r.isFinal(); id++ {
		b := m.branches.At(k)
		if (c.Branch == 0 || c.Branch == id) && (!b.state.Finished() || b.heuristic == txn.HeuristicHazard) {
			m.resolveBranch(m.txs.Edit(i), m.branches.Edit(k), id, c)
			some = true
		}
		k = b.next
	}
	if !some {
		return m.refuse(i, NotInDoubt, c.Branch)
	}
	m.auditResolve(c)
	m.updateHeuristic(i)
	return m.answer(i, OK)
}

// resolveBranch records how an operator says that a branch ended: as it was decided, or otherwise, which
// is a heuristic outcome.
func (m *Machine) resolveBranch(r *record, b *branch, id txn.BranchID, c *Resolve) {
	m.clearHeuristic(b)
	if c.Outcome == r.decidedOutcome() {
		m.finishBranch(r, b, c.Outcome)
		return
	}
	kind := txn.HeuristicRollback
	if c.Outcome == txn.BranchCommitted {
		kind = txn.HeuristicCommit
	}
	m.finishHeuristic(r, b, ReportHeuristic{Branch: id, Heuristic: kind, Detail: c.statement()})
}

// statement says whose statement it is.
func (c *Resolve) statement() string {
	return "said by " + cmp.Or(c.By, "an operator") + ": " + c.Reason
}

func (m *Machine) auditResolve(c *Resolve) {
	m.appendAudit(AuditRecord{Action: ActionResolve, ID: c.ID, Branch: c.Branch, Outcome: c.Outcome, By: c.By, Reason: c.Reason})
}
