package mariadb

import (
	"context"
	"errors"
	"fmt"

	"github.com/txmgr/txmgr/participant"
	"github.com/txmgr/txmgr/participant/internal/excerpt"
	"github.com/txmgr/txmgr/participant/mariadb/internal/errno"
	"github.com/txmgr/txmgr/participant/mariadb/internal/markertable"
)

// Rollback implements [participant.Participant].
func (r *resourceManager) Rollback(ctx context.Context, b participant.Branch) (_ participant.Result, err error) {
	ctx, fail := r.calls.Begin(ctx, "rollback "+excerpt.Of(b.XID))
	defer fail(&err)
	t, err := r.task(b)
	if err != nil {
		return participant.Result{}, err
	}
	if t.s.hasMarker() {
		return t.poll(ctx, t.rollbackByBarrier)
	}
	return t.poll(ctx, t.rollback)
}

// rollbackByBarrier writes the barrier, which determines with certainty whether the branch still
// holds its work. If it does, its connection is ended, and a prepared branch is rolled back.
func (t *task) rollbackByBarrier(ctx context.Context) (result, error) {
	row, err := t.r.markers.Kind(ctx, t.r.db, t.b.XID)
	if err == nil && row == markertable.None {
		err = t.r.markers.CheckSame(ctx, t.r.db, t.s.Table)
	}
	switch {
	case err != nil:
		return result{}, err
	case row != markertable.None:
		return t.byMarker(ctx, row)
	}
	held, res, err := t.writeBarrier(ctx)
	if err != nil || !held {
		return res, err
	}
	// The row was locked, by none of the coordinators. If it still cannot be read, the branch
	// itself holds it.
	row, err = t.r.markers.Kind(ctx, t.r.db, t.b.XID)
	switch {
	case err != nil:
		return result{}, err
	case row != markertable.None:
		return t.byMarker(ctx, row)
	}
	t.seenHeld = true
	old, err := t.serverRestarted(ctx)
	switch {
	case err != nil:
		return result{}, err
	case old && !t.resolveOnly:
		return t.checkRolledBack(ctx, t.finish(ctx, xaRollback))
	case t.r.fenced && !t.fenced:
		return t.fence(ctx)
	}
	c, err := t.r.snapshot(ctx)
	if err != nil {
		return result{}, err
	}
	if c.isPrepared(t.n) {
		return t.rollbackPrepared(ctx, c)
	}
	switch {
	case !c.isBound(t.s):
		return retry(errOrphaned)
	case !t.r.fenced:
		return finalResult(participant.RolledBack, "it is not prepared; its connection is still open, and fencing is off (fence=off)")
	}
	return retry(fmt.Errorf("%w: KILL was sent to connection %d", errStillOpen, t.s.Conn))
}

// writeBarrier writes the barrier. If held is true, the branch's row is locked; otherwise the
// result says whether to retry.
func (t *task) writeBarrier(ctx context.Context) (held bool, _ result, err error) {
	written, held, err := t.r.markers.WriteBarrier(ctx, t.r.db, t.b.XID)
	var res result
	switch {
	case errors.Is(err, markertable.ErrBusy):
		res, err = retry(err)
	case err != nil || held:
	case !written:
		res, err = retry(errors.New("its row has appeared")) // the next attempt reads it
	case !t.missingRowProves():
		res, err = finalResult(participant.Unknown, t.lostReason())
	default:
		res, err = finalResult(participant.RolledBack, "it is not prepared, and cannot begin any more: a barrier is in "+string(t.r.markers))
	}
	return held, res, err
}

// retryUnless is [retry], unless there is an error.
func retryUnless(why, err error) (result, error) {
	if err != nil {
		return result{}, err
	}
	return retry(why)
}

// rollbackPrepared rolls back a prepared branch, once it is bound to no connection.
func (t *task) rollbackPrepared(ctx context.Context, c *serverSnapshot) (result, error) {
	if t.resolveOnly {
		return result{}, errors.New("it is prepared, which a branch that is to be committed in one phase never is; an operator has to finish it")
	}
	if why, err := t.disconnect(ctx, c); why != nil || err != nil {
		return retryUnless(why, err)
	}
	return t.checkRolledBack(ctx, t.finish(ctx, xaRollback))
}

// checkRolledBack determines the outcome after XA ROLLBACK.
func (t *task) checkRolledBack(ctx context.Context, err error) (result, error) {
	switch {
	case errno.Of(err) == errno.NOTA:
		return retry(errBoundElsewhere) // the next attempt decides
	case err != nil && !errno.IsRolledBack(err):
		return result{}, err
	case !t.s.hasMarker():
		return finalResult(participant.RolledBack, xaRollback)
	}
	held, err := t.r.markers.Locked(ctx, t.r.db, t.b.XID)
	switch {
	case err != nil:
		return result{}, err
	case held:
		return result{}, fmt.Errorf("XA ROLLBACK was answered with success, but the branch is not rolled back: %w", errOrphaned)
	}
	return finalResult(participant.RolledBack, xaRollback)
}

// rollback handles a branch for which no marker table is recorded.
func (t *task) rollback(ctx context.Context) (result, error) {
	c, err := t.r.snapshot(ctx)
	if err != nil {
		return result{}, err
	}
	if c.isPrepared(t.n) {
		return t.rollbackPrepared(ctx, c)
	}
	row, err := t.r.markers.Kind(ctx, t.r.db, t.b.XID)
	switch {
	case err != nil:
		return result{}, err
	case row != markertable.None:
		return t.byMarker(ctx, row)
	case t.r.markers != "":
		held, res, err := t.writeBarrier(ctx)
		if held {
			return retry(fmt.Errorf("%w, and no session reference identifies that connection", errStillOpen))
		}
		return res, err
	case t.b.MayBeCommitted():
		return finalResult(participant.Unknown, t.lostReason())
	case c.isBound(t.s):
		return finalResult(participant.RolledBack, "it is not prepared; without a marker row it is not known whether its connection still holds its transaction open")
	}
	return finalResult(participant.RolledBack, "it is not prepared")
}
