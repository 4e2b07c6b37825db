package machine

import (
	"slices"

	"github.com/txmgr/txmgr/txn"
)

// mergeVotes returns the votes of all branches when these are added; ok is false when they
// contradict.
func (t *modelTx) mergeVotes(more []txn.BranchVote) (votes []txn.Vote, ok bool) {
	for _, b := range t.branches {
		votes = append(votes, b.vote)
	}
	if len(more) > len(votes) {
		return nil, false
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
		return m.noOfDecider(c, t)
	case t.delegated():
		return Delegated
	case !t.state.Decided() && !ok:
		return BadVote
	case t.state.Commits():
		for _, v := range c.Votes {
			if v.Branch == 0 || int(v.Branch) > len(t.branches) || v.Vote >= txn.VoteDelegated || t.branches[v.Branch-1].vote != v.Vote {
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

func (m *model) resolve(c Resolve, t *modelTx) Code {
	a := AuditRecord{Action: ActionResolve, ID: c.ID, Branch: c.Branch, Outcome: c.Outcome, By: c.By, Reason: c.Reason}
	repeat := slices.ContainsFunc(m.trail, func(b AuditRecord) bool {
		b.Seq, b.Wall, b.Tick, b.Index = 0, 0, 0, 0
		return a == b
	})
	switch {
	case int(c.Branch) > len(t.branches):
		return NoBranch
	case t.delegated() && c.Decides && (t.cause != 0 || t.expiry <= m.tick) && c.Branch != 0 && int(c.Branch) != t.decider:
		return Delegated
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

func saidBy(c Resolve) string {
	if c.By == "" {
		return "said by an operator: " + c.Reason
	}
	return "said by " + c.By + ": " + c.Reason
}
