package mariadb

import (
	"context"
	"errors"
	"fmt"

	"github.com/txmgr/txmgr/participant"
)

// Rollback implements [participant.Participant].
func (r *resource) Rollback(ctx context.Context, b participant.Branch) (_ participant.Result, err error) {
	ctx, fail := r.call(ctx, "rollback "+clip(b.XID))
	defer fail(&err)
	t, err := r.task(b)
	if err != nil {
		return participant.Result{}, err
	}
	if t.s.proved() {
		return t.until(ctx, t.exclude)
	}
	return t.until(ctx, t.rollback)
}

// Settle implements [participant.Settler].
func (r *resource) Settle(ctx context.Context, b participant.Branch) (_ participant.Result, err error) {
	ctx, fail := r.call(ctx, "settle "+clip(b.XID))
	defer fail(&err)
	t, err := r.task(b)
	if err != nil {
		return participant.Result{}, err
	}
	if !t.s.proved() {
		return participant.Result{Ending: participant.Unknown, Detail: t.noProof()}, nil
	}
	t.settle = true
	return t.until(ctx, t.exclude)
}

// exclude writes the barrier, and so finds out for sure whether the branch is
// still in somebody's hands. If it is, its session is ended, and what it has
// prepared is rolled back.
func (t *task) exclude(ctx context.Context) (result, error) {
	row, err := t.r.row(ctx, t.b.XID)
	if err == nil && row == rowNone {
		err = t.r.sameTable(ctx, t.s)
	}
	switch {
	case err != nil:
		return result{}, err
	case row != rowNone:
		return t.byRow(ctx, row)
	}
	held, res, err := t.barrier(ctx)
	if err != nil || !held {
		return res, err
	}
	// The row was locked, by none of us. If it cannot be read even now, the branch
	// itself has it.
	row, err = t.r.row(ctx, t.b.XID)
	switch {
	case err != nil:
		return result{}, err
	case row != rowNone:
		return t.byRow(ctx, row)
	}
	old, err := t.old(ctx)
	switch {
	case err != nil:
		return result{}, err
	case old && !t.settle:
		return t.rolledBack(ctx, t.finish(ctx, xaRollback))
	case t.r.fenced && !t.fenced:
		return t.fence(ctx)
	}
	c, err := t.r.census(ctx)
	if err != nil {
		return result{}, err
	}
	if c.has(t.n) {
		return t.rollbackPrepared(ctx, c)
	}
	switch {
	case !c.holds(t.s):
		return again(errGhost)
	case !t.r.fenced:
		return ended(participant.RolledBack, "it is not prepared; its session is still open and not to be fenced off")
	}
	return again(fmt.Errorf("%w: connection %d has been told to end", errStillOpen, t.s.Conn))
}

// barrier writes the barrier. held is true when that has to wait; otherwise the
// result says what is next.
func (t *task) barrier(ctx context.Context) (held bool, _ result, err error) {
	written, held, err := t.r.barrier(ctx, t.b.XID)
	var res result
	switch {
	case errors.Is(err, errBusy):
		res, err = again(err)
	case err != nil || held:
	case !written:
		res, err = again(errors.New("its row has appeared")) // which the next look reads
	case t.b.NeedsProof() && !t.s.proved():
		res, err = ended(participant.Unknown, t.lost())
	default:
		res, err = ended(participant.RolledBack, "it is not prepared, and kept from beginning by a barrier in "+string(t.r.proof))
	}
	return held, res, err
}

// fence ends the session that holds the branch's row, if it is of this server and
// the branch is not prepared: then it cannot be another one's.
func (t *task) fence(ctx context.Context) (result, error) {
	t.fenced = true
	listed, err := t.r.listed(ctx, t.n)
	if err != nil || listed {
		return again2(errStillOpen, err)
	}
	start, err := t.r.start(ctx)
	if err == nil && start == t.s.Start {
		err = t.r.end(ctx, t.s.Conn)
	}
	return again2(fmt.Errorf("%w: connection %d has been told to end", errStillOpen, t.s.Conn), err)
}

// again2 is again, unless there is an error.
func again2(why, err error) (result, error) {
	if err != nil {
		return result{}, err
	}
	return again(why)
}

// rollbackPrepared rolls back what is prepared, when nobody has it any more.
func (t *task) rollbackPrepared(ctx context.Context, c *census) (result, error) {
	if t.settle {
		return result{}, errors.New("it is prepared, which a branch that is to be committed in one phase never is; somebody has to finish it by hand")
	}
	if why, err := t.release(ctx, c); why != nil || err != nil {
		return again2(why, err)
	}
	return t.rolledBack(ctx, t.finish(ctx, xaRollback))
}

// rolledBack looks what an answer to XA ROLLBACK means.
func (t *task) rolledBack(ctx context.Context, err error) (result, error) {
	switch {
	case numberOf(err) == codeNOTA:
		return again(errElsewhere) // the next look tells
	case err != nil && !rolledBackBy(err):
		return result{}, err
	case !t.s.proved():
		return ended(participant.RolledBack, xaRollback)
	}
	held, err := t.r.held(ctx, t.b.XID)
	switch {
	case err != nil:
		return result{}, err
	case held:
		return result{}, fmt.Errorf("XA ROLLBACK was answered with success, but the branch is not rolled back: %w", errGhost)
	}
	return ended(participant.RolledBack, xaRollback)
}

// rollback is for a branch of which no proof is on record.
func (t *task) rollback(ctx context.Context) (result, error) {
	c, err := t.r.census(ctx)
	if err != nil {
		return result{}, err
	}
	if c.has(t.n) {
		return t.rollbackPrepared(ctx, c)
	}
	row, err := t.r.row(ctx, t.b.XID)
	switch {
	case err != nil:
		return result{}, err
	case row != rowNone:
		return t.byRow(ctx, row)
	case t.r.proof != "":
		held, res, err := t.barrier(ctx)
		if held {
			return again(fmt.Errorf("%w, and which one that is is not on record", errStillOpen))
		}
		return res, err
	case t.b.NeedsProof():
		return ended(participant.Unknown, t.lost())
	case c.holds(t.s):
		return ended(participant.RolledBack, "it is not prepared; whether its session still has its work cannot be told without proof")
	}
	return ended(participant.RolledBack, "it is not prepared")
}
