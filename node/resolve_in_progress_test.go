package node

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/txmgr/txmgr/participant"
	"github.com/txmgr/txmgr/txn"
	"github.com/txmgr/txmgr/txn/admin"
)

// busyParticipant is a resource where a branch is neither prepared nor ended.
type busyParticipant struct{ *fakeParticipant }

func (busyParticipant) Commit(context.Context, participant.Branch) (participant.Result, error) {
	return participant.Result{}, errors.New("its connection still holds its transaction open")
}

func (busyParticipant) Inspect(context.Context, participant.Branch) (participant.BranchReport, error) {
	return participant.BranchReport{Detail: "connection 7 is at work"}, nil
}

// TestNoWordIsTakenOfABranchThatHasNotEnded: an operator cannot know how it will end.
func TestNoWordIsTakenOfABranchThatHasNotEnded(t *testing.T) {
	n := open(t, t.TempDir(), with(participantMap{"bank": busyParticipant{newFakeParticipant()}}))
	b := beginAt(t, n, time.Minute, "bank")
	votes := []txn.BranchVote{{Branch: 1, Vote: txn.VotePrepared}}
	if _, err := n.Commit(t.Context(), b.ID, txn.CommitRequest{Votes: votes}); err != nil {
		t.Fatal(err)
	}
	for _, commit := range []bool{true, false} {
		_, err := n.Admin().Resolve(t.Context(), b.ID, admin.Resolution{Commit: commit, Reason: "seen it"})
		wantErr(t, "resolve", err, txn.ErrConflict, "has not ended there (connection 7 is at work)")
	}
}
