package machine

import (
	"cmp"
	"slices"

	"github.com/txmgr/txmgr/txn"
)

// mergeVotes returns the votes of all branches when these are added; ok is false when they
// contradict.
func (t *modelTx) mergeVotes(more []txn.BranchVote) (votes []txn.Vote, ok bool) {
	for _, b := range t.branches {
		votes = append(votes, b.vote)
	}
	for _, v := range more {
		if v.Branch == 0 || int(v.Branch) > len(votes) || v.Vote >= txn.VoteDelegated || votes[v.Branch-1] != 0 && votes[v.Branch-1] != v.Vote {
			return nil, false
		}
		votes[v.Branch-1] = v.Vote
	}
	return votes, true
}

func (t *modelTx) cast(votes []txn.Vote) {
	for i, v := range votes {
		if v != 0 {
			t.branches[i].vote, t.branches[i].state = v, txn.BranchPrepared
		}
	}
}

func (m *model) vote(c Vote, t *modelTx) Code {
	votes, ok := t.mergeVotes(c.Votes)
	no := slices.ContainsFunc(c.Votes, func(v txn.BranchVote) bool { return v.Vote == txn.VoteNo })
	switch {
	case t.appointed() || t.awaitsEnd():
		if len(c.Votes) != 1 || c.Votes[0] != (txn.BranchVote{Branch: 1, Vote: txn.VoteNo}) || t.branches[0].vote != txn.VoteDelegated {
			return Delegated
		}
		t.branches[0].vote = txn.VoteNo
		if t.cause == 0 {
			t.reason = c.Reason
		}
		m.decide(c.ID, txn.RollingBack, cmp.Or(t.cause, txn.CauseClient))
		return OK
	case t.delegated():
		return Delegated
	case !t.state.Decided() && !ok:
		return BadVote
	case t.state.Commits():
		for _, v := range c.Votes {
			if !ok || t.branches[v.Branch-1].vote != v.Vote {
				return BadVote
			}
		}
		return OK
	case t.state.Decided():
		if ok && no {
			return OK
		}
		return Decided
	}
	t.cast(votes)
	t.own = t.own || c.ClientCompletes
	switch {
	case no:
		t.reason = c.Reason
		m.decide(c.ID, txn.RollingBack, txn.CauseVoteNo)
	case t.state == txn.Preparing && !slices.Contains(votes, 0):
		m.decide(c.ID, txn.Committing, 0)
	}
	return OK
}

func (m *model) endedByHand(c EndedByApplication, t *modelTx) Code {
	if c.Branch == 0 || int(c.Branch) > len(t.branches) {
		return BadVote
	}
	b, delegated, appointed := t.branches[c.Branch-1], t.delegated(), t.appointed()
	switch {
	case b.vote == txn.VoteEndedByApplication:
		return OK
	case t.state.Commits():
		return Decided
	}
	b.vote = txn.VoteEndedByApplication
	switch {
	case appointed:
		t.state, t.cause, t.reason = txn.Preparing, txn.CauseVoteNo, c.Reason
	case delegated:
	case !t.state.Decided():
		t.reason = c.Reason
		m.decide(c.ID, txn.RollingBack, txn.CauseVoteNo)
	case t.state.Finished() && t.hazard == 0:
		t.ended = m.tick
		m.finished = append(slices.DeleteFunc(m.finished, func(x txn.ID) bool { return x == c.ID }), c.ID)
	}
	return OK
}

func (m *model) delegate(c Delegate, t *modelTx) Code {
	if c.Branch == 0 || int(c.Branch) > len(t.branches) {
		return NoBranch
	}
	b := t.branches[c.Branch-1]
	switch {
	case t.delegated(), t.appointed(), t.state.Commits() && b.vote >= txn.VoteDelegated:
		return OK
	case t.state != txn.Active:
		return Decided
	case len(t.branches) > 1, b.vote != 0, m.coord[b.at]:
		return NotSoleBranch
	}
	t.state, b.vote = txn.Preparing, txn.VoteDelegated
	return OK
}

// end is ReportCompletion of a delegated transaction.
func (m *model) end(c ReportCompletion, t *modelTx) Code {
	if len(c.Reports) == 0 {
		return Undecided
	}
	for _, a := range c.Reports {
		if a.Branch != 1 {
			return BadCompletion
		}
	}
	t.branches[0].state = c.Reports[0].State
	if c.Reports[0].State == txn.BranchCommitted {
		t.reason = ""
		m.decide(c.ID, txn.Committing, 0)
	} else {
		m.decide(c.ID, txn.RollingBack, cmp.Or(t.cause, txn.CauseVoteNo))
	}
	return OK
}

// heuristicDelegated is ReportHeuristic of a delegated transaction.
func (m *model) heuristicDelegated(c ReportHeuristic, t *modelTx) Code {
	switch {
	case c.Branch != 1:
		return NoBranch
	case c.Heuristic != txn.HeuristicHazard:
		return Undecided
	}
	b := t.branches[0]
	b.state, b.hazard, b.detail = txn.BranchHeuristic, c.Heuristic, c.Detail
	m.decide(c.ID, txn.RollingBack, cmp.Or(t.cause, txn.CauseVoteNo))
	return OK
}

func (m *model) resolve(c Resolve, t *modelTx) Code {
	a := AuditRecord{Action: ActionResolve, ID: c.ID, Branch: c.Branch, Outcome: c.Outcome, By: c.By, Reason: c.Reason}
	repeat := slices.ContainsFunc(m.trail, func(b AuditRecord) bool {
		b.Seq, b.Wall, b.Tick, b.Index = 0, 0, 0, 0
		return a == b
	})
	switch {
	case int(c.Branch) > len(t.branches):
		return NoBranch
	case t.delegated() && c.Decides && (t.cause != 0 || t.expiry <= m.tick):
		m.appendAudit(a)
		m.stated(c, t)
		return OK
	case repeat:
		return OK
	case t.delegated():
		return Delegated
	case !t.state.Decided() && (c.Outcome == txn.BranchCommitted || c.Decides):
		return Undecided
	case !t.state.Decided():
		t.reason = c.Reason
		m.giveUp(c.ID, txn.CauseOperator)
		m.appendAudit(a)
		return OK
	case t.state.Finished() && t.hazard == 0:
		return NotInDoubt
	}
	some := false
	for i, b := range t.branches {
		if c.Branch != 0 && int(c.Branch) != i+1 || b.state.Finished() && b.hazard != txn.HeuristicHazard {
			continue
		}
		some = true
		b.state, b.hazard, b.detail = c.Outcome, 0, ""
		if c.Outcome != t.end() {
			b.state, b.detail = txn.BranchHeuristic, saidBy(c)
			b.hazard = map[txn.BranchState]txn.Heuristic{txn.BranchCommitted: txn.HeuristicCommit, txn.BranchRolledBack: txn.HeuristicRollback}[c.Outcome]
		}
	}
	if !some {
		return NotInDoubt
	}
	m.appendAudit(a)
	m.finishVoteless(c.ID)
	return OK
}

// stated is Resolve of a delegated transaction: the end that the operator states is the decision, and is not proved.
func (m *model) stated(c Resolve, t *modelTx) {
	b := t.branches[0]
	b.state, b.hazard, b.detail = txn.BranchHeuristic, txn.HeuristicHazard, "rolled-back, "+saidBy(c)
	if c.Outcome == txn.BranchCommitted {
		t.reason, b.detail = "", "committed, "+saidBy(c)
		m.decide(c.ID, txn.Committing, 0)
		return
	}
	if t.cause == 0 {
		t.cause, t.reason = txn.CauseOperator, c.Reason
	}
	m.decide(c.ID, txn.RollingBack, t.cause)
}

func saidBy(c Resolve) string {
	if c.By == "" {
		return "said by an operator: " + c.Reason
	}
	return "said by " + c.By + ": " + c.Reason
}
