package web

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"
)

// Store keeps the barrier's rows, one for each branch, in the database in which
// the service works. S is how the service works there: a *[sql.Tx], for example.
//
// Safe for concurrent use, by several processes at once.
type Store[S any] interface {
	// Do runs step in one local transaction in which nobody else works on the row
	// of xid. step is given the row's state and detail, empty when there is none,
	// and gives the new ones, which become durable together with what it did with
	// s. When step gives the state that it was given, or an error, nothing of all
	// that remains. step may be run more than once, if what it did before has been
	// undone. After a panic nothing remains.
	//
	// The error of step is given back so that [errors.As] finds it. Any other error
	// means that it is not known whether the transaction was committed, unless it
	// has a method Refused() bool that says true: the store looked at the work and
	// will not do it. Where step can end the transaction past the store, the state is
	// then "ended-by-hand", with the detail "committed" if the branch had no row before
	// and what step did is committed.
	Do(ctx context.Context, xid string, step func(ctx context.Context, s S, state, detail string) (newState, newDetail string, err error)) error
	// List visits rows in the order of their names: those behind after that begin
	// with prefix and have the state, any if that is empty; at most limit.
	List(ctx context.Context, state, prefix, after string, limit int, visit func(xid, state string, since time.Time) error) error
	// Prune forgets rows that have not changed since before and have another state
	// than keep, and says how many.
	Prune(ctx context.Context, keep string, before time.Time) (int, error)
}

// The states of a row. The one that is none is of a branch that is not known.
const (
	stateNone               = ""
	statePrepared           = "prepared"
	stateReadOnly           = "read-only"
	stateNo                 = "no"
	stateCommitted          = "committed"
	stateRolledBack         = "rolled-back"
	stateNever              = "never-prepared" // rolled back, and there was nothing to undo
	stateEndedByApplication = "ended-by-hand"  // a callback has ended the local transaction
)

// detailCommitted is the detail of [stateEndedByApplication] when the work of prepare is committed.
const detailCommitted = "committed"

// reply is an answer to the coordinator.
type reply struct {
	status        int
	header, value string // one more header; none if empty
	text          string
}

var (
	replyPrepared          = reply{http.StatusOK, HeaderVote, votePrepared, "prepared"}
	replyReadOnly          = reply{http.StatusOK, HeaderVote, voteReadOnly, "read-only"}
	replyCommitted         = reply{http.StatusOK, HeaderOutcome, outcomeCommitted, "committed"}
	replyRolledBack        = reply{http.StatusOK, HeaderOutcome, outcomeRolledBack, "rolled back"}
	replyNeverPrepared     = reply{http.StatusOK, HeaderOutcome, outcomeNever, "rolled back; it was never prepared here, or is forgotten"}
	replyTooLate           = reply{http.StatusConflict, HeaderVote, voteNo, "the branch has been rolled back already"}
	replyUnknown           = reply{http.StatusNotFound, HeaderOutcome, outcomeUnknown, "the branch was never prepared here, or is forgotten"}
	replyAlreadyRolledBack = reply{http.StatusConflict, HeaderOutcome, outcomeRolledBack, "the branch has been rolled back"}
	replyAlreadyCommitted  = reply{http.StatusConflict, HeaderOutcome, outcomeCommitted, "the branch has been committed"}
)

func replyNo(reason string) reply {
	return reply{http.StatusConflict, HeaderVote, voteNo, reason}
}

// replyEndedByApplication answers with the header of the phase.
func replyEndedByApplication(header, detail string) reply {
	text := "the service's own code ended the local transaction in which it worked for the branch, and what it did there or afterwards may be committed; it is not done again: look at the data"
	if detail == detailCommitted {
		text = "the service's own code committed the local transaction in which it prepared the branch; it is not done again: look at the data"
		if header == HeaderOutcome {
			return reply{http.StatusConflict, header, outcomeCommitted, text}
		}
	}
	return reply{http.StatusConflict, header, wordEndedByApplication, text}
}

// step is what has to be done for a phase of a branch in a state.
type step struct {
	run    bool   // call the callback
	state  string // which comes next, if the callback has nothing to say against it
	answer reply
}

// nextStep is the barrier: the whole of what a service answers when.
func nextStep(phase, state, detail string) step {
	switch phase {
	case phasePrepare:
		switch state {
		case stateNone:
			return step{run: true, state: statePrepared, answer: replyPrepared}
		case stateNo:
			return step{state: state, answer: replyNo(detail)}
		case stateRolledBack, stateNever:
			return step{state: state, answer: replyTooLate}
		case stateReadOnly:
			return step{state: state, answer: replyReadOnly}
		case stateEndedByApplication:
			return step{state: state, answer: replyEndedByApplication(HeaderVote, detail)}
		}
		return step{state: state, answer: replyPrepared} // it was, and may have been committed since
	case phaseCommit:
		switch state {
		case stateNone:
			return step{state: state, answer: replyUnknown}
		case statePrepared:
			return step{run: true, state: stateCommitted, answer: replyCommitted}
		case stateNo, stateRolledBack, stateNever:
			return step{state: state, answer: replyAlreadyRolledBack}
		case stateEndedByApplication:
			return step{state: state, answer: replyEndedByApplication(HeaderOutcome, "")}
		}
		return step{state: state, answer: replyCommitted}
	}
	switch state {
	case stateNone, stateNever:
		return step{state: stateNever, answer: replyNeverPrepared}
	case statePrepared:
		return step{run: true, state: stateRolledBack, answer: replyRolledBack}
	case stateCommitted:
		return step{state: state, answer: replyAlreadyCommitted}
	case stateEndedByApplication:
		return step{state: state, answer: replyEndedByApplication(HeaderOutcome, detail)}
	}
	return step{state: state, answer: replyRolledBack}
}

// barrier runs callbacks behind the rows of a store.
type barrier[S any] struct {
	store     Store[S]
	callbacks Callbacks[S]
}

// run takes one branch through one phase.
func (b *barrier[S]) run(ctx context.Context, phase string, br Branch) (reply, error) {
	var answer reply
	err := b.store.Do(ctx, br.XID, func(ctx context.Context, s S, state, detail string) (string, string, error) {
		n := nextStep(phase, state, detail)
		answer = n.answer
		if !n.run {
			return n.state, detail, nil
		}
		err := b.call(ctx, phase, s, br)
		if phase == phasePrepare && errors.Is(err, ReadOnly) {
			answer = replyReadOnly
			return stateReadOnly, "", nil
		}
		return n.state, "", err
	})
	if err == nil {
		return answer, nil
	}
	if reason, no := noReason(err); no && phase == phasePrepare {
		return b.recordNo(ctx, br.XID, reason)
	}
	return reply{}, err
}

// recordNo makes a no final, in a transaction of its own: that of the callback has
// been undone. Another request for the branch may have come between, and then has
// its way.
func (b *barrier[S]) recordNo(ctx context.Context, xid, reason string) (reply, error) {
	answer := replyNo(reason)
	err := b.store.Do(ctx, xid, func(_ context.Context, _ S, state, detail string) (string, string, error) {
		if state == stateNone {
			answer = replyNo(reason)
			return stateNo, reason, nil
		}
		answer = nextStep(phasePrepare, state, detail).answer
		return state, detail, nil
	})
	return answer, err
}

// call calls the callback of a phase. A panic is an error, after which nothing of
// what it did remains.
func (b *barrier[S]) call(ctx context.Context, phase string, s S, br Branch) (err error) {
	do := map[string]func(context.Context, S, Branch) error{
		phasePrepare: b.callbacks.Prepare, phaseCommit: b.callbacks.Commit, phaseRollback: b.callbacks.Rollback,
	}[phase]
	if do == nil {
		return nil
	}
	defer func() {
		if x := recover(); x != nil {
			err = fmt.Errorf("the callback panicked: %v", x)
		}
	}()
	return do(ctx, s, br)
}

// noReason finds a no in an error of a prepare: the callback's, or the store's.
func noReason(err error) (reason string, no bool) {
	if v := (*noVote)(nil); errors.As(err, &v) {
		return clean(v.reason, maxReason), true
	}
	var r interface {
		error
		Refused() bool
	}
	if errors.As(err, &r) && r.Refused() {
		return clean(r.Error(), maxReason), true
	}
	return "", false
}
