package machine

import (
	"cmp"
	"slices"

	"github.com/txmgr/txmgr/txn"
)

// What the model knows of the branch whose own end decides: modelTx.decider, one at most. It is appointed by its
// enlistment or by that of the begin, and is the last to promise anything: no other branch has a vote, or can be given
// one, until the end of the decider is known.

// mayDecide says whether the log accepts these branches of a begin.
func (m *model) mayDecide(all []Branch) Code {
	deciders, coordinated := 0, 0
	for _, b := range all {
		if b.Decides {
			deciders++
		}
		if m.coord[b.Participant] {
			coordinated++
		}
	}
	if deciders > 1 || deciders == 1 && coordinated > 0 {
		return NotSoleBranch
	}
	return OK
}

func (t *modelTx) add(b Branch) {
	x := &modelBranch{at: b.Participant, state: txn.BranchEnlisted, place: b.SessionRef}
	t.branches = append(t.branches, x)
	if b.Decides {
		t.decider, x.vote = len(t.branches), txn.VoteDelegated
	}
}

// revoke makes the appointed branch an ordinary one.
func (t *modelTx) revoke() {
	if t.appointed() {
		t.branches[t.decider-1].vote, t.decider = 0, 0
	}
}

func (m *model) enlist(t *modelTx, b Branch) Code {
	_, known := m.coord[b.Participant]
	i := slices.IndexFunc(t.branches, func(x *modelBranch) bool { return x.at == b.Participant })
	switch {
	case t.delegated():
		return Delegated
	case t.state != txn.Active:
		return Decided
	case !known:
		return NoParticipant
	case i >= 0 && b.Decides && t.decider != i+1:
		return NotSoleBranch // its client would take it for appointed, and nothing is
	case i >= 0:
		code := t.enlistAgain(t.branches[i], b.SessionRef)
		if code == OK && b.Revokes && !b.Decides && t.decider <= i+1 {
			t.revoke() // of what was enlisted up to this branch: it may be a copy that arrives late
		}
		return code
	case t.appointed() && !b.Revokes:
		return Delegated
	case b.Decides && !m.allPromiseLater(t, b):
		return NotSoleBranch
	}
	if b.Revokes {
		t.revoke()
	}
	t.add(b)
	return OK
}

// allPromiseLater says whether the client of b will learn every vote before it commits b.
func (m *model) allPromiseLater(t *modelTx, b Branch) bool {
	for i, x := range t.branches {
		if m.coord[x.at] || x.vote != 0 && t.decider != i+1 {
			return false
		}
	}
	return !m.coord[b.Participant] && !t.moved
}

// enlistAgain is the enlistment of a known branch from a session, which may be another.
func (t *modelTx) enlistAgain(x *modelBranch, place string) Code {
	switch {
	case place == "" || place == x.place:
		return OK
	case x.vote != 0:
		return Conflict
	case x.place == "":
		x.place = place
		return OK
	case slices.Contains(x.gone, place):
		return SessionRefReplaced
	case len(x.gone) == maxReplacedRefs:
		return TooMany
	}
	x.gone, x.place, t.moved = append(x.gone, x.place), place, true
	return OK
}

func (m *model) delegate(c Delegate, t *modelTx) Code {
	if c.Branch == 0 || int(c.Branch) > len(t.branches) {
		return NoBranch
	}
	b, sole := t.branches[c.Branch-1], len(t.branches) == 1
	switch {
	case t.decider != 0 && !sole:
		return NotSoleBranch
	case t.decider != 0, t.state.Commits() && b.vote >= txn.VoteDelegated:
		return OK
	case t.state != txn.Active:
		return Decided
	case !sole, t.moved, b.vote != 0, m.coord[b.at]:
		return NotSoleBranch
	}
	t.state, t.decider, b.vote = txn.Preparing, 1, txn.VoteDelegated
	return OK
}

// noOfDecider is Vote while a branch is appointed, or its end is being found out.
func (m *model) noOfDecider(c Vote, t *modelTx) Code {
	b := t.branches[t.decider-1]
	if len(c.Votes) != 1 || int(c.Votes[0].Branch) != t.decider || c.Votes[0].Vote != txn.VoteNo || b.vote != txn.VoteDelegated {
		return Delegated
	}
	b.vote = txn.VoteNo
	if t.cause == 0 {
		t.reason = c.Reason
	}
	m.decide(c.ID, txn.RollingBack, cmp.Or(t.cause, txn.CauseClient))
	return OK
}

func (m *model) endedByHand(c EndedByApplication, t *modelTx) Code {
	if c.Branch == 0 || int(c.Branch) > len(t.branches) {
		return BadVote
	}
	b, sole := t.branches[c.Branch-1], len(t.branches) == 1
	switch {
	case b.vote == txn.VoteEndedByApplication:
		return OK
	case t.state.Commits():
		return Decided
	}
	if t.decider != 0 && !sole {
		t.branches[t.decider-1].vote = 0 // its client does not commit it any more
	}
	b.vote = txn.VoteEndedByApplication
	if !t.state.Decided() && t.cause == 0 && !(t.delegated() && sole) {
		t.reason = c.Reason
	}
	switch {
	case t.appointed() && sole:
		t.state, t.cause = txn.Preparing, txn.CauseVoteNo
	case t.delegated() && sole:
	case !t.state.Decided():
		m.decide(c.ID, txn.RollingBack, cmp.Or(t.cause, txn.CauseVoteNo))
	case t.state.Finished() && t.hazard == 0:
		t.ended = m.tick
		m.finished = append(slices.DeleteFunc(m.finished, func(x txn.ID) bool { return x == c.ID }), c.ID)
	}
	return OK
}

// end is ReportCompletion of a transaction with a branch that decides.
func (m *model) end(c ReportCompletion, t *modelTx) Code {
	if len(c.Reports) > len(t.branches) {
		return BadCompletion
	}
	ends := map[txn.BranchState]bool{}
	decided, unknown := false, false
	for _, a := range c.Reports {
		ends[a.State] = true
		decided = decided || int(a.Branch) == t.decider
		unknown = unknown || a.Branch == 0 || int(a.Branch) > len(t.branches)
	}
	switch {
	case !decided && len(c.Reports) > 0 && len(t.branches) == 1:
		return BadCompletion
	case !decided:
		return Undecided
	case unknown || len(ends) > 1 || !ends[txn.BranchCommitted] && !ends[txn.BranchRolledBack]:
		return BadCompletion
	}
	if ends[txn.BranchCommitted] {
		t.othersPromised()
	}
	for _, a := range c.Reports {
		t.branches[a.Branch-1].state = a.State
	}
	m.decideBy(c.ID, ends[txn.BranchCommitted], txn.CauseVoteNo)
	return OK
}

// othersPromised: the client commits the decider only when all others are prepared.
func (t *modelTx) othersPromised() {
	for i, b := range t.branches {
		if i+1 != t.decider {
			b.vote, b.state = txn.VotePrepared, txn.BranchPrepared
		}
	}
}

// decideBy decides as the decider has ended.
func (m *model) decideBy(id txn.ID, committed bool, cause txn.Cause) {
	if t := m.txs[id]; committed {
		t.reason = ""
		m.decide(id, txn.Committing, 0)
	} else {
		m.decide(id, txn.RollingBack, cmp.Or(t.cause, cause))
	}
}

// heuristicDelegated is ReportHeuristic of a delegated transaction.
func (m *model) heuristicDelegated(c ReportHeuristic, t *modelTx) Code {
	switch {
	case int(c.Branch) != t.decider:
		return NoBranch
	case c.Heuristic != txn.HeuristicHazard:
		return Undecided
	}
	b := t.branches[t.decider-1]
	b.state, b.hazard, b.detail = txn.BranchHeuristic, c.Heuristic, c.Detail
	m.decideBy(c.ID, false, txn.CauseVoteNo)
	return OK
}

// stated is Resolve of a delegated transaction: the end that the operator states is the decision, and is not proved.
func (m *model) stated(c Resolve, t *modelTx) {
	b := t.branches[t.decider-1]
	b.state, b.hazard, b.detail = txn.BranchHeuristic, txn.HeuristicHazard, "rolled-back, "+saidBy(c)
	if c.Outcome == txn.BranchCommitted {
		b.detail = "committed, " + saidBy(c)
		t.othersPromised()
	} else if t.cause == 0 {
		t.reason = c.Reason
	}
	m.decideBy(c.ID, c.Outcome == txn.BranchCommitted, txn.CauseOperator)
}
