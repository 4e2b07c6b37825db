package web

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"
)

// Store keeps the barrier's rows, one for each branch, in the service's own database. S is the
// type of a local transaction there: *[sql.Tx], for example.
//
// A Store is safe for concurrent use, by several processes at once.
type Store[S any] interface {
	// Do runs step in one local transaction that has the row of xid locked. step is given the
	// row's state and detail, empty if there is no row, and returns the new ones, which become
	// durable together with its work in s. If step returns the same state, or an error, the
	// transaction is rolled back; so it is after a panic. step may be run more than once, if its
	// earlier work has been rolled back.
	//
	// Do returns the error of step so that [errors.As] finds it. Any other error means that it is
	// not known whether the transaction was committed, unless it has a method Refused() bool that
	// returns true: the store has rejected the work. If step can end the transaction without the
	// store, the state is then "ended-by-application", with the detail "committed" if the branch had no
	// row before and the work of step is committed.
	Do(ctx context.Context, xid string, step func(ctx context.Context, s S, state, detail string) (newState, newDetail string, err error)) error
	// List visits rows in the order of their names: at most limit rows whose names come after
	// after and begin with prefix, and that have the state; an empty state matches all.
	List(ctx context.Context, state, prefix, after string, limit int, visit func(xid, state string, since time.Time) error) error
	// Prune deletes rows that have not changed since before and have another state than keep,
	// and returns their number.
	Prune(ctx context.Context, keep string, before time.Time) (int, error)
}

// The states of a row. A branch without a row has stateNone.
const (
	stateNone               = ""
	statePrepared           = "prepared"
	stateReadOnly           = "read-only"
	stateNo                 = "no"
	stateCommitted          = "committed"
	stateRolledBack         = "rolled-back"
	stateNever              = "never-prepared"       // rolled back without having been prepared
	stateEndedByApplication = "ended-by-application" // a callback has ended the local transaction
)

// detailCommitted is the detail of [stateEndedByApplication] if the work of prepare is committed.
const detailCommitted = "committed"

// reply is a response to the coordinator.
type reply struct {
	status        int
	header, value string // an additional header; none if empty
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

// replyEndedByApplication returns a reply with the header of the phase.
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

// step is the action for a phase of a branch in a state.
type step struct {
	run    bool   // call the callback
	state  string // the new state, if the callback returns no error
	answer reply
}

// nextStep is the barrier: the table of all states and phases.
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
		return step{state: state, answer: replyPrepared} // it may have been committed since
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

// barrier runs callbacks as the rows of a store permit.
type barrier[S any] struct {
	store     Store[S]
	callbacks Callbacks[S]
}

// run performs one phase of one branch.
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

// recordNo makes a no final, in a transaction of its own: that of the callback has been rolled
// back. If another request for the branch came between, its result is kept and returned.
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

// call calls the callback of a phase. A panic becomes an error, so that its work is rolled back.
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

// noReason reports whether the error of a prepare is a no, of the callback or of the store, and
// its reason.
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
