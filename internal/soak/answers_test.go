package soak

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/txmgr/txmgr/txn"
)

// The calls that are no method of the client.
const (
	callRun    = "txn.Run"
	callRunIn  = "txn.RunIn"
	callAttach = "txn.Attach"
	callFollow = "Tx.Follow"
)

// An error that a call may not answer at any time (see [mayAnswer]) needs a reason:
//
//   - own time over: the error names what ended the call's context (context.Canceled or
//     DeadlineExceeded), and that has to have ended: up to a second sooner, since an attempt that
//     would begin after the end is not made. The call is unavailable, or in doubt if it decides. The
//     few calls that are not repeated return the server's own timeout error, which names nothing. The
//     end of RequestTimeout is no reason: ten seconds are enough where nothing is disturbed.
//   - disturbed: nodes fail, or elect. Calls may be unavailable or in doubt, also with time left: a
//     stream breaks, a node knows no leader. See [disturbances].
const (
	ownTime   = "own time over"
	disturbed = "disturbed"
)

// isCallerTimeout reports whether the end of the caller's context is the reason.
func (a *callError) isCallerTimeout() bool {
	if a.callerTimedOut && slices.Contains(onceOnly, a.call) && a.is(txn.ErrUnavailable) {
		return true
	}
	return a.callerTimedOut && a.is(context.Canceled, context.DeadlineExceeded, txn.ErrWaitTimeout) &&
		(a.is(txn.ErrUnavailable, txn.ErrWaitTimeout) || a.isInDoubtDecision() || a.composed())
}

// onceOnly are the calls that the client does not repeat.
var onceOnly = []string{"CreateToken", "TransferLeader", "Leave"}

// isInDoubtDecision reports whether a call that decides is in doubt.
func (a *callError) isInDoubtDecision() bool { return a.is(txn.ErrInDoubt) && decides(a.call) }

// decides reports whether a call without an answer leaves its caller in doubt.
func decides(call string) bool {
	return slices.Contains([]string{"Commit", "Vote", "Delegate", callRun, callRunIn, callFollow}, call)
}

// callError is an error that a call has answered.
type callError struct {
	call           string
	from, to       time.Time
	callerTimedOut bool // the caller's context had ended
	err            error
}

func (a *callError) is(any ...error) bool {
	return slices.ContainsFunc(any, func(target error) bool { return errors.Is(a.err, target) })
}

// composed calls make several calls, and work in databases; they end with the error of any of them.
func (a *callError) composed() bool {
	return slices.Contains([]string{callRun, callRunIn, callFollow}, a.call)
}

// callStats is what is known of the calls of one kind.
type callStats struct {
	took    []time.Duration // of those that were answered
	ok      int
	refused int // with an error that the call may return at any time
	excused map[string]int
}

// recorder measures every call, and keeps answers that need a reason.
type recorder struct {
	mu          sync.Mutex // guards all below
	records     map[string]*callStats
	unexplained []*callError // checked when it is known what happened meanwhile
	writeAcked  func()       // called when a write was acknowledged
}

func newRecorder() *recorder {
	return &recorder{records: map[string]*callStats{}, writeAcked: func() {}}
}

// call makes a call and records its answer.
func (r *recorder) call(name string, ctx context.Context, make func() error) error { //nolint:revive // the name comes first
	from := time.Now()
	err := make()
	to := time.Now()
	a := &callError{call: name, from: from, to: to, err: err}
	if until, has := ctx.Deadline(); has {
		a.callerTimedOut = !to.Before(until.Add(-time.Second))
	}
	a.callerTimedOut = a.callerTimedOut || ctx.Err() != nil
	if err == nil && writes[name] {
		r.writeAcked() // it has a lock of its own
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	rec := r.records[name]
	if rec == nil {
		rec = &callStats{excused: map[string]int{}}
		r.records[name] = rec
	}
	switch {
	case err == nil:
		rec.ok++
		rec.took = append(rec.took, to.Sub(from))
	case a.is(mayAnswer[name]...):
		rec.refused++
		rec.took = append(rec.took, to.Sub(from))
	case a.isCallerTimeout():
		rec.excused[ownTime]++
	default:
		r.unexplained = append(r.unexplained, a)
	}
	return err
}

// unexpected returns the answers that nothing excuses.
func (r *recorder) unexpected(w *disturbances) (unexpected []*callError) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, a := range r.unexplained {
		if w.disturbed(a.from, a.to) && (a.is(txn.ErrUnavailable) || a.isInDoubtDecision()) {
			r.records[a.call].excused[disturbed]++
			continue
		}
		r.records[a.call].excused["unexpected"]++
		unexpected = append(unexpected, a)
	}
	r.unexplained = nil
	return unexpected
}

func (a *callError) String() string {
	return fmt.Sprintf("%s at %s, after %v: %v", a.call, a.from.Format("15:04:05.000"), a.to.Sub(a.from).Round(time.Millisecond), a.err)
}
