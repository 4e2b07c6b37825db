package node

import (
	"context"
	"errors"
	"fmt"

	"github.com/txmgr/txmgr/internal/failpoint"
	"github.com/txmgr/txmgr/txn"
	"github.com/txmgr/txmgr/txn/machine"
)

// call proposes a command on one transaction and turns a refusal into an error.
func (n *Node) call(ctx context.Context, op string, id txn.ID, c machine.Command) (machine.Result, error) {
	return n.callThen(ctx, op, id, c, nil)
}

// callThen is call, and over as in [batcher.proposeThen].
func (n *Node) callThen(ctx context.Context, op string, id txn.ID, c machine.Command, over func()) (machine.Result, error) {
	if id.IsZero() {
		return machine.Result{}, &txn.Error{Op: op, Err: txn.ErrInvalid, Detail: "no transaction id given"}
	}
	failpoint.Hit(op + " received")
	res, err := n.batcher.proposeThen(ctx, c, over)
	failpoint.Hit(op + " applied")
	if err != nil {
		if p := n.failed.Load(); p != nil {
			err = fmt.Errorf("%w: the log has failed: %w", txn.ErrInDoubt, *p)
		}
		return res, txn.Wrap(op, id, err)
	}
	if res.Code == machine.OK {
		return res, nil
	}
	return res, refused(op, id, res)
}

// refused says what a replicated refusal means to the caller.
func refused(op string, id txn.ID, r machine.Result) *txn.Error {
	e := &txn.Error{Op: op, ID: id, State: r.State, Cause: r.Cause}
	switch r.Code {
	case machine.NotFound:
		e.Err, e.Detail = txn.ErrNotFound, "unknown transaction: never begun, or finished and forgotten after the retention time"
	case machine.NoParticipant:
		e.Err, e.Detail = txn.ErrNotFound, "participant is not registered"
	case machine.NoBranch:
		e.Err, e.Detail = txn.ErrNotFound, fmt.Sprintf("no branch %v", r.Branch)
	case machine.Decided:
		e.Detail, e.Err = decidedError(op, r)
	case machine.Undecided:
		e.Err, e.Detail = txn.ErrConflict, undecidedText(op, r)
	case machine.Unfinished:
		e.Err, e.Detail = txn.ErrConflict, fmt.Sprintf("transaction is %v: its branches have to be finished first; see: txmgr doubt explain %v", r.State, id)
	case machine.Conflict:
		e.Err, e.Detail = txn.ErrConflict, "used before with other contents"
	case machine.MissingVote:
		e.Err, e.Detail = txn.ErrConflict, fmt.Sprintf("branch %v has not voted: prepare it and give its vote", r.Branch)
	case machine.BadVote:
		e.Err, e.Detail = txn.ErrInvalid, fmt.Sprintf("vote of branch %v: no such branch, or another vote than before", r.Branch)
	case machine.BadAck:
		e.Err, e.Detail = txn.ErrConflict, fmt.Sprintf("acknowledgement of branch %v contradicts the decision, or what is known of the branch", r.Branch)
	case machine.TooMany:
		e.Err, e.Detail = txn.ErrInvalid, fmt.Sprintf("at most %d branches in a transaction, %d participants in a cluster", txn.MaxBranches, txn.MaxParticipants)
	case machine.Delegated:
		e.Err, e.Detail = txn.ErrConflict, fmt.Sprintf("the decision was delegated to branch %v: only its end decides; report it, or wait until its time is over and the coordinator asks the participant", r.Branch)
	case machine.NotSole:
		e.Err, e.Detail = txn.ErrConflict, "the decision can be delegated only to a transaction's one branch, before it has voted, and when one session alone has enlisted it: prepare the branches, and commit with their votes"
	case machine.NotInDoubt:
		e.Err, e.Detail = txn.ErrConflict, "nothing is in doubt here: every branch that is meant has ended as decided, or its end is proved; see: txmgr doubt explain "+id.String()
	case machine.InUse:
		e.Err, e.Detail = txn.ErrConflict, "unfinished branches need the participant"
	case machine.NotBootstrapped:
		e.Err, e.Detail = txn.ErrUnavailable, "the cluster is being formed"
	default:
		e.Err, e.Detail = txn.ErrInvalid, "malformed"
	}
	return e
}

func undecidedText(op string, r machine.Result) string {
	if op == opResolve {
		return fmt.Sprintf("transaction is %v: votes are missing, and only votes can commit; a person can roll it back", r.State)
	}
	return fmt.Sprintf("transaction is %v: it has to be decided first", r.State)
}

// decidedError: a commit that meets a rollback is surely not applied; every
// other call comes too late, or contradicts the decision.
func decidedError(op string, r machine.Result) (detail string, err error) {
	switch {
	case op == opResolve:
		return fmt.Sprintf("it was decided to commit meanwhile (%v): nothing was recorded; look again: txmgr doubt explain", r.State), txn.ErrConflict
	case !r.State.Commits() && r.State.Decided() && op != "rollback":
		return "nothing was, or will be, applied", txn.ErrRolledBack
	case op == "rollback":
		return fmt.Sprintf("decided to commit (%v)", r.State), txn.ErrConflict
	default:
		return fmt.Sprintf("transaction is %v", r.State), txn.ErrNotActive
	}
}

func (n *Node) explainBegin(err error, o txn.Options, r machine.Result) error {
	var e *txn.Error
	if !errors.As(err, &e) {
		return err
	}
	switch r.Code {
	case machine.NoParticipant:
		e.Detail = notRegistered(o.Branches[r.Branch-1].Participant)
	case machine.Conflict:
		e.Detail = "a transaction with this id was begun with other options"
	case machine.Malformed:
		if r.Branch > 0 {
			e.Detail = fmt.Sprintf("participant %q twice: a transaction has one branch at a participant", o.Branches[r.Branch-1].Participant)
		}
	}
	return e
}

func explainEnlist(err error, participant string, r machine.Result) error {
	var e *txn.Error
	if !errors.As(err, &e) {
		return err
	}
	switch r.Code {
	case machine.NoParticipant:
		e.Detail = notRegistered(participant)
	case machine.Conflict:
		e.Detail = fmt.Sprintf("participant %q has branch %v with another payload", participant, r.Branch)
	}
	return e
}

func notRegistered(participant string) string {
	return fmt.Sprintf("participant %q is not registered; see: txmgr participant add", participant)
}
