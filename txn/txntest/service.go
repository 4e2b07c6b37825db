package txntest

import (
	"context"
	"fmt"

	"github.com/txmgr/txmgr/internal/textutil"
	"github.com/txmgr/txmgr/txn"
)

// Call is one call of the coordinator to a participant.
type Call struct {
	ID     txn.ID
	Branch txn.BranchID
	// Phase is prepare, commit or rollback.
	Phase   string
	Payload []byte // as given at the enlistment
}

// Service adds a participant that the coordinator asks for its vote, like an HTTP service:
// serve is called to prepare a branch, and then to commit it or to roll it back.
//
// The vote counts only in the phase prepare, and has to be [txn.VotePrepared],
// [txn.VoteReadOnly], or [txn.VoteNo] or [txn.VoteEndedByApplication] with the reason as the
// error. Any other error means that the result is not known: the call is repeated, a prepare
// until the transaction's deadline. serve has to be safe for concurrent use.
func (m *Manager) Service(name string, serve func(ctx context.Context, c Call) (txn.Vote, error)) {
	m.tb.Helper()
	m.add(name, service(serve), true)
}

type service func(context.Context, Call) (txn.Vote, error)

func (service) graceful() bool { return false }

func (serve service) call(ctx context.Context, c Call) (f callResult, err error) {
	f.vote, err = serve(ctx, c)
	switch {
	case c.Phase == "prepare" && (f.vote == txn.VoteNo || f.vote == txn.VoteEndedByApplication):
		if err != nil {
			f.reason = textutil.Limit(err.Error(), txn.MaxReason)
		}
		return f, nil
	case err != nil:
		return f, err
	case c.Phase == "commit":
		f.state = txn.BranchCommitted
	case c.Phase == "rollback":
		f.state = txn.BranchRolledBack
	case f.vote != txn.VotePrepared && f.vote != txn.VoteReadOnly:
		return f, fmt.Errorf("vote %v is none", f.vote)
	}
	return f, nil
}
