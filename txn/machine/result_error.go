package machine

import (
	"errors"
	"fmt"

	"github.com/txmgr/txmgr/txn"
)

// OpResolve is the name of the call that proposes a [Resolve].
const OpResolve = "indoubt resolve"

// RecoveryPausedDetail says why, after a restore, no transaction begins and no branch is
// driven, and what the operator has to do.
const RecoveryPausedDetail = "restored from a backup: what was decided after it is not known here. An operator has to compare what the participants hold with the log, and then to resume recovery"

// ToError is the error of a refusal for the caller: what is wrong, why, and what to do. op is
// the attempted call, for example "commit".
func (r Result) ToError(op string, id txn.ID) *txn.Error {
	e := &txn.Error{Op: op, ID: id, State: r.State, Cause: r.Cause}
	switch r.Code {
	case NotFound:
		e.Err, e.Detail = txn.ErrNotFound, "unknown transaction: never begun, or finished and forgotten after the retention time"
	case NoParticipant:
		e.Err, e.Detail = txn.ErrNotFound, "participant is not registered"
	case NoBranch:
		e.Err, e.Detail = txn.ErrNotFound, fmt.Sprintf("no branch %v", r.Branch)
	case Decided, OK: // the latter for a rollback that finds a branch that was ended by the application
		e.Detail, e.Err = r.decidedError(op)
		if !r.State.Commits() {
			e.Heuristic = r.Heuristic
		}
	case Undecided:
		e.Err, e.Detail = txn.ErrConflict, r.undecidedDetail(op)
	case Unfinished:
		e.Err, e.Detail = txn.ErrConflict, fmt.Sprintf("transaction is %v: its branches have to be finished first", r.State)
	case Conflict:
		e.Err, e.Detail = txn.ErrConflict, "used before with other contents"
	case MissingVote:
		e.Err, e.Detail = txn.ErrConflict, fmt.Sprintf("branch %v has not voted: prepare it and give its vote", r.Branch)
	case BadVote:
		e.Err, e.Detail = txn.ErrInvalid, fmt.Sprintf("vote of branch %v: no such branch, or another vote than before", r.Branch)
	case BadCompletion:
		e.Err, e.Detail = txn.ErrConflict, fmt.Sprintf("acknowledgement of branch %v contradicts the decision, or what is known of the branch", r.Branch)
	case TooMany:
		e.Err, e.Detail = txn.ErrInvalid, fmt.Sprintf("at most %d branches in a transaction, %d participants in a cluster", txn.MaxBranches, txn.MaxParticipants)
	case Delegated:
		e.Err, e.Detail = txn.ErrConflict, fmt.Sprintf("the decision was delegated to branch %v: only its end decides; report it, or wait until its deadline has passed and the coordinator asks the participant", r.Branch)
	case NotSoleBranch:
		e.Err, e.Detail = txn.ErrConflict, "the decision can be delegated only to a transaction's one branch, before it has voted, and when one session alone has enlisted it; and of several, one can be appointed if the application prepares them all, and none has voted: prepare the branches, and commit with their votes"
	case NotInDoubt:
		e.Err, e.Detail = txn.ErrConflict, "nothing is in doubt here: every branch that is meant has ended as decided, or its end is proved"
	case RecoveryPaused:
		e.Err, e.Detail = txn.ErrUnavailable, RecoveryPausedDetail
	case Forgotten:
		e.Err, e.Mark, e.Detail = txn.ErrForgotten, r.Mark, "the id is older than what the coordinator surely remembers: its transaction may have been committed or rolled back, and nothing was begun now. Look at your data; for new work take a new id, with mark "+r.Mark.String()
	case SessionRefReplaced:
		e.Err, e.Detail = txn.ErrConflict, fmt.Sprintf("another session was enlisted for branch %v since: this one is not part of it any more", r.Branch)
	case NoToken:
		e.Err, e.Detail = txn.ErrNotFound, "no such token"
	case NoSession:
		e.Err, e.Detail = txn.ErrNotFound, "unknown session: never opened, or ended and forgotten after the retention time; open one"
	case SessionEnded:
		e.Err, e.Detail = txn.ErrNotFound, r.sessionEndedDetail()
	case InUse:
		e.Err, e.Detail = txn.ErrConflict, "unfinished branches need the participant"
	case NotBootstrapped:
		e.Err, e.Detail = txn.ErrUnavailable, "the cluster is being formed"
	default:
		e.Err, e.Detail = txn.ErrInvalid, "malformed"
	}
	return e
}

// RollbackError is the error of a call that has waited, and finds the transaction rolled back.
func (t *Transaction) RollbackError(op string) error {
	return Result{Code: Decided, State: t.State, Cause: t.Cause, Heuristic: t.reportedHeuristic(), EndedByApplication: t.EndedByApplication()}.ToError(op, t.ID)
}

// sessionEndedDetail says how a session ended, and what to do.
func (r Result) sessionEndedDetail() string {
	if r.Cause == txn.CauseSessionExpired {
		return fmt.Sprintf("the session expired at tick %d, after %v without a keep-alive: open another", r.Expiry, r.Timeout)
	}
	return fmt.Sprintf("the session was closed at tick %d: open another", r.Expiry)
}

func (r Result) undecidedDetail(op string) string {
	if op == OpResolve {
		return fmt.Sprintf("transaction is %v: votes are missing, and only votes can commit; an operator can roll it back", r.State)
	}
	return fmt.Sprintf("transaction is %v: it has to be decided first", r.State)
}

// decidedError: a commit that meets a rollback is surely not applied, unless a branch ended
// otherwise; every other call comes too late, or contradicts the decision.
func (r Result) decidedError(op string) (detail string, err error) {
	switch {
	case op == OpResolve:
		return fmt.Sprintf("it was decided to commit meanwhile (%v): nothing was recorded: look again before anything else is decided", r.State), txn.ErrConflict
	case !r.State.Commits() && r.State.Decided() && r.EndedByApplication:
		return "the transaction is rolled back, but what that branch did, or what came after its end, may be committed", txn.ErrEndedByApplication
	case !r.State.Commits() && r.State.Decided() && r.Heuristic != 0:
		return "the transaction is rolled back, but a branch was committed nevertheless, or may have been", txn.ErrHeuristic
	case !r.State.Commits() && r.State.Decided() && op != "rollback":
		return "nothing was, or will be, applied", txn.ErrRolledBack
	case op == "rollback":
		return fmt.Sprintf("decided to commit (%v)", r.State), txn.ErrConflict
	default:
		return fmt.Sprintf("transaction is %v", r.State), txn.ErrNotActive
	}
}

// ExplainBegin adds to the error of a begin the details that follow from the options.
func (r Result) ExplainBegin(err error, o txn.Options) error {
	var e *txn.Error
	if !errors.As(err, &e) {
		return err
	}
	switch r.Code {
	case NoSession, SessionEnded:
		e.Detail = o.Session.String() + ": " + e.Detail
	case NoParticipant:
		if r.Branch > 0 {
			e.Detail = NotRegistered(o.Branches[r.Branch-1].Participant)
		}
	case Conflict:
		e.Detail = "a transaction with this id was begun with other options"
	case Malformed:
		if r.Branch > 0 {
			e.Detail = fmt.Sprintf("participant %q twice: a transaction has one branch at a participant", o.Branches[r.Branch-1].Participant)
		}
	}
	return e
}

// ExplainEnlist adds the participant to the error of an enlistment.
func (r Result) ExplainEnlist(err error, participant string) error {
	var e *txn.Error
	if !errors.As(err, &e) {
		return err
	}
	switch r.Code {
	case NoParticipant:
		e.Detail = NotRegistered(participant)
	case Conflict:
		e.Detail = fmt.Sprintf("participant %q has branch %v with another payload", participant, r.Branch)
	case TooMany:
		if r.Branch > 0 {
			e.Detail = fmt.Sprintf("branch %v at %q was given another session %d times, the most that are allowed", r.Branch, participant, maxReplacedRefs)
		}
	}
	return e
}

// NotRegistered is the detail of an error about a participant that is not registered.
func NotRegistered(participant string) string {
	return fmt.Sprintf("participant %q is not registered", participant)
}
