package mariadb

import (
	"context"
	"errors"
	"fmt"

	"github.com/txmgr/txmgr/participant"
	"github.com/txmgr/txmgr/txn"
)

// Rollback implements [participant.Participant].
func (r *resource) Rollback(ctx context.Context, b participant.Branch) (_ participant.Result, err error) {
	ctx, fail := r.call(ctx, "rollback "+clip(b.XID))
	defer fail(&err)
	t, err := r.task(b)
	if err != nil {
		return participant.Result{}, err
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
	return t.until(ctx, t.rollback)
}

// rollback looks once, and does what can be done now.
func (t *task) rollback(ctx context.Context) (result, error) {
	l, err := t.r.look(ctx, t.b.XID, t.s)
	switch {
	case err != nil:
		return result{}, err
	case l.row == rowWork, l.row == rowBarrier && t.s.proved():
		return t.byRow(ctx, l)
	case l.there && t.s.proved():
		return t.exclude(ctx, l)
	case l.there || !t.s.known():
		listed, err := t.r.listed(ctx, t.n)
		if err == nil && listed {
			err = t.detach(ctx)
		}
		if err != nil {
			return result{}, err
		}
		if !listed {
			return t.never(ctx, l)
		}
	}
	if t.settle {
		return t.exclude(ctx, l)
	}
	err = t.finish(ctx, xaRollback)
	switch {
	case numberOf(err) == codeNOTA:
		return t.never(ctx, l)
	case err != nil && !rolledBackBy(err):
		return result{}, err
	}
	return t.rolledBack(ctx)
}

// rolledBack looks whether a success of XA ROLLBACK was one.
func (t *task) rolledBack(ctx context.Context) (result, error) {
	if t.s.proved() {
		held, err := t.r.held(ctx, t.b.XID)
		if err != nil {
			return result{}, err
		}
		if held {
			return result{}, fmt.Errorf("XA ROLLBACK was answered with success, but the branch is not rolled back: %w", errGhost)
		}
	}
	return ended(participant.RolledBack, xaRollback)
}

// never is the end of a branch that is not prepared: it is kept from beginning,
// where that can be done.
func (t *task) never(ctx context.Context, l look) (result, error) {
	if t.r.proof != "" && l.row == rowNone {
		return t.exclude(ctx, l)
	}
	listed, err := t.r.listed(ctx, t.n)
	switch {
	case err != nil:
		return result{}, err
	case listed:
		return again(errors.New("it is prepared, but bound to a session: of somebody who is finishing it, or one that is not on record"))
	case t.b.Vote == txn.VotePrepared && l.row == rowNone:
		return ended(participant.Unknown, "it voted yes and is not prepared any more; "+t.noProof())
	case l.there:
		return ended(participant.RolledBack, "it is not prepared; whether its session still has its work cannot be told without proof")
	}
	return ended(participant.RolledBack, "it is not prepared")
}

// exclude writes the barrier, and so finds out for sure whether the branch is
// still in somebody's hands. If it is, its session is ended.
func (t *task) exclude(ctx context.Context, l look) (result, error) {
	if !t.blocked {
		written, held, err := t.r.barrier(ctx, t.b.XID)
		switch {
		case errors.Is(err, errBusy):
			return again(err)
		case err != nil:
			return result{}, err
		case written:
			return t.excluded()
		case !held:
			return again(errors.New("its row has appeared")) // which the next look reads
		}
		t.blocked = true
		if t.s.known() && !l.there {
			return again(errGhost)
		}
		return again(errStillOpen)
	}
	// The row was locked and is not there to be read: the branch itself has it.
	t.blocked = false
	listed, err := t.r.listed(ctx, t.n)
	switch {
	case err != nil:
		return result{}, err
	case listed && t.settle:
		return result{}, errors.New("it is prepared, which a branch that is to be committed in one phase never is; somebody has to finish it by hand")
	case !t.s.known() && listed:
		return again(errors.New("it is being prepared"))
	case !t.s.known():
		return again(fmt.Errorf("%w, and which one that is is not on record", errStillOpen))
	case !l.there && listed:
		return again(errors.New("it has prepared meanwhile"))
	case !l.there:
		return again(errGhost)
	case !listed && !t.r.fenced:
		return ended(participant.RolledBack, "it is not prepared; its session is still open and not to be fenced off")
	}
	if err := t.r.end(ctx, t.s.Conn); err != nil {
		return result{}, err
	}
	return again(fmt.Errorf("%w: connection %d has been ended", errStillOpen, t.s.Conn))
}

// excluded is the end of a branch that has no row but the barrier.
func (t *task) excluded() (result, error) {
	if t.b.Vote == txn.VotePrepared && !t.s.proved() {
		return ended(participant.Unknown, "it voted yes and is not prepared any more; "+t.noProof())
	}
	return ended(participant.RolledBack, "it did not prepare, and is kept from beginning by a barrier in "+string(t.r.proof))
}
