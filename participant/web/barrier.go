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
	stateNone       = ""
	statePrepared   = "prepared"
	stateReadOnly   = "read-only"
	stateNo         = "no"
	stateCommitted  = "committed"
	stateRolledBack = "rolled-back"
	stateNever      = "never-prepared" // rolled back, and there was nothing to undo
	stateByHand     = "ended-by-hand"  // a callback has ended the local transaction
)

// detailCommitted is the detail of [stateByHand] when the work of prepare is committed.
const detailCommitted = "committed"

// reply is an answer to the coordinator.
type reply struct {
	status        int
	header, value string // one more header; none if empty
	text          string
}

var (
	sayPrepared   = reply{http.StatusOK, HeaderVote, votePrepared, "prepared"}
	sayReadOnly   = reply{http.StatusOK, HeaderVote, voteReadOnly, "read-only"}
	sayCommitted  = reply{http.StatusOK, HeaderOutcome, outcomeCommitted, "committed"}
	sayRolledBack = reply{http.StatusOK, HeaderOutcome, outcomeRolledBack, "rolled back"}
	sayNever      = reply{http.StatusOK, HeaderOutcome, outcomeNever, "rolled back; it was never prepared here, or is forgotten"}
	sayTooLate    = reply{http.StatusConflict, HeaderVote, voteNo, "the branch has been rolled back already"}
	sayUnknown    = reply{http.StatusNotFound, HeaderOutcome, outcomeUnknown, "the branch was never prepared here, or is forgotten"}
	sayRefused    = reply{http.StatusConflict, HeaderOutcome, outcomeRolledBack, "the branch has been rolled back"}
	sayOver       = reply{http.StatusConflict, HeaderOutcome, outcomeCommitted, "the branch has been committed"}
)

func sayNo(reason string) reply {
	return reply{http.StatusConflict, HeaderVote, voteNo, reason}
}

// sayByHand answers with the header of the phase.
func sayByHand(header, detail string) reply {
	text := "the service's own code ended the local transaction in which it worked for the branch, and what it did there or afterwards may be committed; it is not done again: look at the data"
	if detail == detailCommitted {
		text = "the service's own code committed the local transaction in which it prepared the branch; it is not done again: look at the data"
		if header == HeaderOutcome {
			return reply{http.StatusConflict, header, outcomeCommitted, text}
		}
	}
	return reply{http.StatusConflict, header, wordByHand, text}
}

// step is what has to be done for a phase of a branch in a state.
type step struct {
	run    bool   // call the callback
	state  string // which comes next, if the callback has nothing to say against it
	answer reply
}

// next is the barrier: the whole of what a service answers when.
func next(phase, state, detail string) step {
	switch phase {
	case phasePrepare:
		switch state {
		case stateNone:
			return step{run: true, state: statePrepared, answer: sayPrepared}
		case stateNo:
			return step{state: state, answer: sayNo(detail)}
		case stateRolledBack, stateNever:
			return step{state: state, answer: sayTooLate}
		case stateReadOnly:
			return step{state: state, answer: sayReadOnly}
		case stateByHand:
			return step{state: state, answer: sayByHand(HeaderVote, detail)}
		}
		return step{state: state, answer: sayPrepared} // it was, and may have been committed since
	case phaseCommit:
		switch state {
		case stateNone:
			return step{state: state, answer: sayUnknown}
		case statePrepared:
			return step{run: true, state: stateCommitted, answer: sayCommitted}
		case stateNo, stateRolledBack, stateNever:
			return step{state: state, answer: sayRefused}
		case stateByHand:
			return step{state: state, answer: sayByHand(HeaderOutcome, "")}
		}
		return step{state: state, answer: sayCommitted}
	}
	switch state {
	case stateNone, stateNever:
		return step{state: stateNever, answer: sayNever}
	case statePrepared:
		return step{run: true, state: stateRolledBack, answer: sayRolledBack}
	case stateCommitted:
		return step{state: state, answer: sayOver}
	case stateByHand:
		return step{state: state, answer: sayByHand(HeaderOutcome, detail)}
	}
	return step{state: state, answer: sayRolledBack}
}

// barrier runs callbacks behind the rows of a store.
type barrier[S any] struct {
	store     Store[S]
	callbacks Callbacks[S]
}

// pass takes one branch through one phase.
func (b *barrier[S]) pass(ctx context.Context, phase string, br Branch) (reply, error) {
	var answer reply
	err := b.store.Do(ctx, br.XID, func(ctx context.Context, s S, state, detail string) (string, string, error) {
		n := next(phase, state, detail)
		answer = n.answer
		if !n.run {
			return n.state, detail, nil
		}
		err := b.call(ctx, phase, s, br)
		if phase == phasePrepare && errors.Is(err, ReadOnly) {
			answer = sayReadOnly
			return stateReadOnly, "", nil
		}
		return n.state, "", err
	})
	if err == nil {
		return answer, nil
	}
	if reason, no := refusal(err); no && phase == phasePrepare {
		return b.refuse(ctx, br.XID, reason)
	}
	return reply{}, err
}

// refuse makes a no final, in a transaction of its own: that of the callback has
// been undone. Another request for the branch may have come between, and then has
// its way.
func (b *barrier[S]) refuse(ctx context.Context, xid, reason string) (reply, error) {
	answer := sayNo(reason)
	err := b.store.Do(ctx, xid, func(_ context.Context, _ S, state, detail string) (string, string, error) {
		if state == stateNone {
			answer = sayNo(reason)
			return stateNo, reason, nil
		}
		answer = next(phasePrepare, state, detail).answer
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

// refusal finds a no in an error of a prepare: the callback's, or the store's.
func refusal(err error) (reason string, no bool) {
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
