package servertest

import (
	"context"

	"github.com/txmgr/txmgr/txn"
)

// Vote implements [txn.Manager].
func (f *Fake) Vote(ctx context.Context, id txn.ID, b txn.Votes) (txn.Outcome, error) {
	return f.withTx(ctx, "vote", id, func(i *txn.Info) error {
		if len(b.Reason) > txn.MaxReason {
			return refused("vote", i, txn.ErrInvalid, "reason is too long")
		}
		if err := requireUndelegated("vote", i); err != nil {
			return err
		}
		votes := f.takeManualEndsLocked(i, b)
		if len(votes) == 0 && len(b.Votes) > 0 {
			return nil
		}
		no, news, err := checkVotes(i, votes)
		switch {
		case err != nil:
			return err
		case i.State.Decided() && !i.State.Commits() && (news || !no):
			return refused("vote", i, txn.ErrRolledBack, "")
		case i.State.Decided() && news:
			return refused("vote", i, txn.ErrNotActive, "")
		case i.State.Decided():
			return nil
		}
		for _, v := range votes {
			one := &i.Branches[v.Branch-1]
			if one.Vote, one.State = v.Vote, txn.BranchPrepared; v.Vote == txn.VoteNo {
				one.State = txn.BranchRolledBack
			}
		}
		if no {
			i.Reason = b.Reason
			f.decideLocked(i, txn.RollingBack, txn.CauseVoteNo)
			deriveHeuristic(i)
		}
		return nil
	})
}

// takeManualEndsLocked applies the votes that say that a branch was ended by hand, and
// returns the other votes.
func (f *Fake) takeManualEndsLocked(i *txn.Info, b txn.Votes) (left []txn.BranchVote) {
	for _, v := range b.Votes {
		if v.Vote != txn.VoteEndedByApplication || v.Branch < 1 || int(v.Branch) > len(i.Branches) || i.State.Commits() {
			left = append(left, v)
			continue
		}
		i.Branches[v.Branch-1].Vote = v.Vote
		if !i.State.Decided() {
			i.Reason = b.Reason
			f.decideLocked(i, txn.RollingBack, txn.CauseVoteNo)
		}
	}
	return left
}

// checkVotes rejects impossible votes. no reports whether a vote is no; news whether a vote
// was not given before.
func checkVotes(i *txn.Info, votes []txn.BranchVote) (no, news bool, err error) {
	for _, v := range votes {
		if v.Branch < 1 || int(v.Branch) > len(i.Branches) {
			return false, false, refused("vote", i, txn.ErrInvalid, "no branch "+v.Branch.String())
		}
		before := i.Branches[v.Branch-1].Vote
		if v.Vote < txn.VotePrepared || v.Vote > txn.VoteNo || before != 0 && before != v.Vote {
			return false, false, refused("vote", i, txn.ErrInvalid, "another vote than before of "+v.Branch.String())
		}
		no, news = no || v.Vote == txn.VoteNo, news || before == 0
	}
	return no, news, nil
}

// Delegate implements [txn.Manager].
func (f *Fake) Delegate(ctx context.Context, id txn.ID, b txn.BranchID) (txn.Outcome, error) {
	return f.withTx(ctx, "delegate", id, func(i *txn.Info) error {
		switch {
		case b < 1 || int(b) > len(i.Branches):
			return refused("delegate", i, txn.ErrNotFound, "no branch "+b.String())
		case i.Branches[b-1].Vote == txn.VoteDelegated:
			return nil // repeated, whatever the outcome
		case i.State.Decided() && !i.State.Commits():
			return refused("delegate", i, txn.ErrRolledBack, "")
		case i.State != txn.Active:
			return refused("delegate", i, txn.ErrNotActive, "")
		case len(i.Branches) != 1 || i.Branches[0].Vote != 0:
			return refused("delegate", i, txn.ErrConflict, "there are other branches, or votes")
		}
		i.State, i.ExpiresIn, i.RemainingInvocations = txn.Preparing, 0, 0
		i.Branches[0].Vote = txn.VoteDelegated
		return nil
	})
}

// delegatedBranch is the branch to which the decision is delegated; zero if there is none.
func delegatedBranch(i *txn.Info) txn.BranchID {
	if len(i.Branches) == 1 && i.Branches[0].Vote == txn.VoteDelegated && !i.State.Decided() {
		return i.Branches[0].ID
	}
	return 0
}

func requireUndelegated(op string, i *txn.Info) error {
	if b := delegatedBranch(i); b != 0 {
		return refused(op, i, txn.ErrConflict, "the decision was delegated to "+b.String())
	}
	return nil
}

func (f *Fake) decideDelegatedLocked(i *txn.Info, end txn.BranchState) {
	switch end {
	case txn.BranchCommitted:
		f.decideLocked(i, txn.Committing, 0)
	case txn.BranchRolledBack:
		f.decideLocked(i, txn.RollingBack, txn.CauseVoteNo)
	}
}

// deriveHeuristic derives the heuristic outcome from the branches, and finishes a decided
// transaction whose branches are finished.
func deriveHeuristic(i *txn.Info) {
	i.Heuristic = 0
	unfinished, wrong := false, 0
	for _, b := range i.Branches {
		unfinished = unfinished || !b.State.Finished()
		switch b.Heuristic {
		case 0:
		case txn.HeuristicHazard:
			if wrong == 0 {
				i.Heuristic = b.Heuristic
			}
		default:
			wrong++
			i.Heuristic = b.Heuristic
		}
	}
	if wrong > 0 && wrong < len(i.Branches) {
		i.Heuristic = txn.HeuristicMixed
	}
	if i.State.Decided() && !i.State.Finished() && !unfinished {
		i.State++
	}
}
