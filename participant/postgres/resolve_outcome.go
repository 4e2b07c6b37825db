package postgres

import (
	"context"
	"errors"
	"fmt"

	"github.com/txmgr/txmgr/participant"
	"github.com/txmgr/txmgr/participant/internal/excerpt"
	"github.com/txmgr/txmgr/participant/postgres/internal/markertable"
	"github.com/txmgr/txmgr/txn"
)

var (
	_ participant.OutcomeResolver = (*resourceManager)(nil)
	_ participant.OutcomeReader   = (*resourceManager)(nil)
)

// ResolveOutcome implements [participant.OutcomeResolver]. A backend that still runs the branch's
// transaction is terminated; with fence=off the call waits for it to end by itself.
func (r *resourceManager) ResolveOutcome(ctx context.Context, b participant.Branch) (_ participant.Result, err error) {
	ctx, fail := r.calls.Begin(ctx, "resolve the outcome of "+excerpt.Of(b.XID))
	defer fail(&err)
	if err := r.own(b); err != nil {
		return participant.Result{}, err
	}
	s, err := ParseSessionRef(b.SessionRef)
	if err != nil {
		return participant.Result{Outcome: participant.Unknown, Detail: "no session reference is recorded"}, nil
	}
	resolve := r.resolveByNumber
	if r.provedByMarker(s) {
		resolve = r.resolveByMarker
	}
	return pollUntilEnded(ctx, func(ctx context.Context) (participant.Result, error, error) { return resolve(ctx, b, s) })
}

// ReadOutcome implements [participant.OutcomeReader]. Only a marker row is taken for proof.
func (r *resourceManager) ReadOutcome(ctx context.Context, b participant.Branch) (_ participant.Result, known bool, err error) {
	ctx, fail := r.calls.Begin(ctx, "read the outcome of "+excerpt.Of(b.XID))
	defer fail(&err)
	if err := r.own(b); err != nil {
		return participant.Result{}, false, err
	}
	s, err := ParseSessionRef(b.SessionRef)
	if err != nil || !r.provedByMarker(s) {
		return participant.Result{}, false, nil
	}
	result, stillLocked, err := r.byMarker(ctx, b.XID, s)
	unproved := result.Outcome == 0 || barrierProvesNothing(result, b)
	if stillLocked != nil || err != nil || unproved {
		return participant.Result{}, false, err
	}
	return result, true, nil
}

// barrierProvesNothing reports whether a barrier may have been written after the row of a commit
// was removed, of which a log that was restored from a backup does not know.
func barrierProvesNothing(result participant.Result, b participant.Branch) bool {
	return result.Outcome == participant.RolledBack && b.BeforeRestore
}

// resolveByMarker makes one attempt: either the branch's row can be read, or a barrier is written
// in its place, or the backend that has the row locked is terminated. stillOpen says why another
// attempt is needed.
func (r *resourceManager) resolveByMarker(ctx context.Context, b participant.Branch, s SessionRef) (result participant.Result, stillOpen, err error) {
	result, stillOpen, err = r.byMarker(ctx, b.XID, s)
	missing := result.Outcome == 0 || barrierProvesNothing(result, b)
	if stillOpen != nil || err != nil || !missing {
		return result, stillOpen, err
	}
	// A log that was restored from a backup asks about branches whose rows were removed since.
	e, err := r.xactStatus(ctx, s)
	if err != nil {
		return participant.Result{}, nil, err
	}
	ending, detail := e.outcome(b.Vote == txn.VotePrepared)
	if ending == participant.Committed {
		return participant.Result{Outcome: ending, Detail: detail}, nil, nil
	}
	if result.Outcome == 0 {
		if result, stillOpen, err = r.writeBarrier(ctx, b.XID, s); result.Outcome == 0 {
			return result, stillOpen, err
		}
	}
	if b.BeforeRestore && ending != participant.RolledBack {
		return participant.Result{Outcome: participant.Unknown, Detail: removedRowDetail(detail)}, nil, nil
	}
	return result, nil, nil
}

// writeBarrier writes a barrier in place of a branch's row, or terminates the backend that has the row locked.
func (r *resourceManager) writeBarrier(ctx context.Context, xid string, s SessionRef) (result participant.Result, stillOpen, err error) {
	written, err := r.markers.WriteBarrier(ctx, r.pool, xid)
	switch {
	case errors.Is(err, markertable.ErrLocked):
		stillOpen, err = r.fence(ctx, s)
		if errors.Is(stillOpen, errPrepared) {
			return result, nil, stillOpen // waiting does not help
		}
		return result, stillOpen, err
	case err != nil:
		return result, nil, fmt.Errorf("write a barrier to %s: %w", r.markers, err)
	case !written:
		return result, errRowAppeared, nil
	}
	return participant.Result{Outcome: participant.RolledBack, Detail: "it is not committed, and cannot be any more: a barrier is in " + string(r.markers)}, nil, nil
}

// removedRowDetail says why a missing row proves nothing about a branch from before a restore.
// status is what the server says of the transaction's number; empty when it says nothing.
func removedRowDetail(status string) string {
	why := "the coordinator was restored from a backup: if the branch was committed after that, its row may have been removed"
	if status != "" {
		why += "; " + status
	}
	return why + ": compare with the data"
}

// errRowAppeared means that the next attempt can read the row.
var errRowAppeared = errors.New("its marker row has appeared")

// resolveByNumber makes one attempt for a branch that has no marker row. stillOpen says why another is needed.
func (r *resourceManager) resolveByNumber(ctx context.Context, b participant.Branch, s SessionRef) (_ participant.Result, stillOpen, err error) {
	e, err := r.xactStatus(ctx, s)
	if err != nil {
		return participant.Result{}, nil, err
	}
	if ending, detail := e.outcome(b.Vote == txn.VotePrepared); ending != 0 {
		return participant.Result{Outcome: ending, Detail: detail}, nil, nil
	}
	anothers, stillOpen, err := r.terminateBackend(ctx, s, e)
	switch {
	case err != nil:
		return participant.Result{}, nil, err
	case anothers:
		return participant.Result{Outcome: participant.RolledBack, Detail: e.reusedXIDDetail()}, nil, nil
	case errors.Is(stillOpen, errPrepared):
		return participant.Result{}, nil, stillOpen // waiting does not help
	}
	return participant.Result{}, stillOpen, nil
}
