package txntest

import (
	"errors"
	"fmt"

	"github.com/txmgr/txmgr/txn"
	"github.com/txmgr/txmgr/txn/machine"
)

// The errors here are those of a node, word for word; a test holds the two
// together.

// refused says what a refusal of the machine means to the caller.
func refused(op string, id txn.ID, r machine.Result) *txn.Error {
	e := &txn.Error{Op: op, ID: id, State: r.State, Cause: r.Cause}
	switch r.Code {
	case machine.NotFound:
		e.Err, e.Detail = txn.ErrNotFound, "unknown transaction: never begun, or finished and forgotten after the retention time"
	case machine.NoBranch:
		e.Err, e.Detail = txn.ErrNotFound, fmt.Sprintf("no branch %v", r.Branch)
	case machine.Decided:
		e.Detail, e.Err = decidedError(op, r)
	case machine.Undecided:
		e.Err, e.Detail = txn.ErrConflict, fmt.Sprintf("transaction is %v: it has to be decided first", r.State)
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
	default:
		e.Err, e.Detail = txn.ErrInvalid, "malformed"
	}
	return e
}

// decidedError: a commit that meets a rollback is surely not applied; every
// other call comes too late, or contradicts the decision.
func decidedError(op string, r machine.Result) (detail string, err error) {
	switch {
	case !r.State.Commits() && r.State.Decided() && op != "rollback":
		return "nothing was, or will be, applied", txn.ErrRolledBack
	case op == "rollback":
		return fmt.Sprintf("decided to commit (%v)", r.State), txn.ErrConflict
	default:
		return fmt.Sprintf("transaction is %v", r.State), txn.ErrNotActive
	}
}

func explainBegin(err error, o txn.Options, r machine.Result) error {
	var e *txn.Error
	if !errors.As(err, &e) {
		return err
	}
	switch {
	case r.Code == machine.Conflict:
		e.Detail = "a transaction with this id was begun with other options"
	case r.Code == machine.Malformed && r.Branch > 0:
		e.Detail = fmt.Sprintf("participant %q twice: a transaction has one branch at a participant", o.Branches[r.Branch-1].Participant)
	}
	return e
}

func explainEnlist(err error, participant string, r machine.Result) error {
	var e *txn.Error
	if errors.As(err, &e) && r.Code == machine.Conflict {
		e.Detail = fmt.Sprintf("participant %q has branch %v with another payload", participant, r.Branch)
	}
	return err
}

// withReason adds to an error about a rollback why it was rolled back, where
// somebody has said so.
func (m *Manager) withReason(err error) error {
	var e *txn.Error
	if !errors.As(err, &e) || e.Err != txn.ErrRolledBack || e.Cause == txn.CauseTimeout {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if t, ok := m.machine.Get(e.ID); ok && t.Reason != "" && !t.State.Commits() {
		e.Detail = t.Reason + "; " + e.Detail
	}
	return err
}

func tooLong(op string, id txn.ID, bytes int) error {
	return &txn.Error{Op: op, ID: id, Err: txn.ErrInvalid, Detail: fmt.Sprintf("reason has %d bytes; at most %d", bytes, txn.MaxReason)}
}

func over(op string, id txn.ID) error {
	return &txn.Error{Op: op, ID: id, Err: txn.ErrUnavailable, Detail: "the coordinator is stopping"}
}

func outcomeOf(r machine.Result) txn.Outcome {
	return txn.Outcome{State: r.State, Cause: r.Cause, Hazard: r.Hazard}
}
