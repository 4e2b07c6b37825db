package servertest

import (
	"context"

	"github.com/txmgr/txmgr/txn"
)

// Vote implements [txn.Manager].
func (f *Fake) Vote(ctx context.Context, id txn.ID, b txn.Ballot) (txn.Outcome, error) {
	return f.open(ctx, "vote", id, func(i *txn.Info) error {
		if len(b.Reason) > txn.MaxReason {
			return refused("vote", i, txn.ErrInvalid, "reason is too long")
		}
		if err := undelegated("vote", i); err != nil {
			return err
		}
		votes := f.byHandLocked(i, b)
		if len(votes) == 0 && len(b.Votes) > 0 {
			return nil
		}
		no, news, err := check(i, votes)
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
			weigh(i)
		}
		return nil
	})
}

// byHandLocked takes the votes that say that a branch was ended by hand, and gives the
// others.
func (f *Fake) byHandLocked(i *txn.Info, b txn.Ballot) (left []txn.BranchVote) {
	for _, v := range b.Votes {
		if v.Vote != txn.VoteEndedByHand || v.Branch < 1 || int(v.Branch) > len(i.Branches) || i.State.Commits() {
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

// check refuses votes that nobody can give. no says that one of them is no, news
// that one was not given before.
func check(i *txn.Info, votes []txn.BranchVote) (no, news bool, err error) {
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
	return f.open(ctx, "delegate", id, func(i *txn.Info) error {
		switch {
		case b < 1 || int(b) > len(i.Branches):
			return refused("delegate", i, txn.ErrNotFound, "no branch "+b.String())
		case i.Branches[b-1].Vote == txn.VoteDelegated:
			return nil // a repeat, whatever came of it
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

// delegated is the branch whose end is going to be the decision; zero when there
// is none.
func delegated(i *txn.Info) txn.BranchID {
	if len(i.Branches) == 1 && i.Branches[0].Vote == txn.VoteDelegated && !i.State.Decided() {
		return i.Branches[0].ID
	}
	return 0
}

func undelegated(op string, i *txn.Info) error {
	if b := delegated(i); b != 0 {
		return refused(op, i, txn.ErrConflict, "the decision was delegated to "+b.String())
	}
	return nil
}

func (f *Fake) endDelegatedLocked(i *txn.Info, end txn.BranchState) {
	switch end {
	case txn.BranchCommitted:
		f.decideLocked(i, txn.Committing, 0)
	case txn.BranchRolledBack:
		f.decideLocked(i, txn.RollingBack, txn.CauseVoteNo)
	}
}

// weigh derives the hazard from the branches, and finishes a decided transaction
// whose branches are.
func weigh(i *txn.Info) {
	i.Hazard = 0
	unfinished, wrong := false, 0
	for _, b := range i.Branches {
		unfinished = unfinished || !b.State.Finished()
		switch b.Hazard {
		case 0:
		case txn.HazardUnknown:
			if wrong == 0 {
				i.Hazard = b.Hazard
			}
		default:
			wrong++
			i.Hazard = b.Hazard
		}
	}
	if wrong > 0 && wrong < len(i.Branches) {
		i.Hazard = txn.HazardMixed
	}
	if i.State.Decided() && !i.State.Finished() && !unfinished {
		i.State++
	}
}
