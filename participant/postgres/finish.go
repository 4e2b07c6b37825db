package postgres

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/txmgr/txmgr/participant"
	"github.com/txmgr/txmgr/txn"
)

// Commit implements [participant.Participant].
func (r *resource) Commit(ctx context.Context, b participant.Branch) (_ participant.Result, err error) {
	ctx, fail := r.call(ctx, "commit "+clip(b.XID))
	defer fail(&err)
	found, err := r.finish(ctx, commitPrepared, b)
	if err != nil {
		return participant.Result{}, err
	}
	if found {
		return participant.Result{Ending: participant.Committed, Detail: commitPrepared}, nil
	}
	result, err := r.commitGone(ctx, b)
	if err != nil {
		return participant.Result{}, &participant.NoEffectError{Err: err} // it only asked
	}
	return result, nil
}

// commitGone finds out how a branch ended that is not prepared. That somebody may
// have committed it is no proof: somebody else may have rolled it back.
func (r *resource) commitGone(ctx context.Context, b participant.Branch) (participant.Result, error) {
	why := "no session is on record"
	if s, err := ParseSession(b.Session); err == nil {
		// A branch that voted yes was on disk with its number: restarts matter not.
		e, err := r.evidence(ctx, s)
		if err != nil {
			return participant.Result{}, err
		}
		switch ending, how := e.ending(true); ending {
		case 0:
			return participant.Result{}, e.inProgress()
		case participant.Unknown:
			why = how
		default:
			return participant.Result{Ending: ending, Detail: how}, nil
		}
	}
	switch {
	case b.Attempts > 0:
		why += "; an attempt whose answer was lost may have committed it"
	case b.OwnPhaseTwo:
		why += "; the application may have committed it"
	}
	return participant.Result{Ending: participant.Unknown, Detail: "it is not prepared; " + why}, nil
}

// The statements that finish a branch, which are also their command tags.
const (
	commitPrepared   = "COMMIT PREPARED"
	rollbackPrepared = "ROLLBACK PREPARED"
)

// finish runs one of the statements. found is false when the branch is not
// prepared; an error means that it may or may not have been finished, unless it
// is a [participant.NoEffectError].
func (r *resource) finish(ctx context.Context, statement string, b participant.Branch) (found bool, err error) {
	if err := r.own(b); err != nil {
		return false, &participant.NoEffectError{Err: err}
	}
	conn, err := r.pool.Acquire(ctx)
	if err != nil {
		return false, &participant.NoEffectError{Err: err}
	}
	defer conn.Release()
	if err := ctx.Err(); err != nil {
		return false, &participant.NoEffectError{Err: err}
	}
	err = finishPrepared(ctx, conn, statement, b.XID)
	none := noEffect(err)
	switch stateOf(err) {
	case stateNotFound:
		return false, nil
	case stateElsewhere:
		err = fmt.Errorf("it is prepared in another database of the server; register that database: %w", err)
	case stateNotAllowed:
		err = fmt.Errorf("connect as the user that prepared it, or as a superuser: %w", err)
	case stateBusy:
		err = fmt.Errorf("somebody else is finishing it: %w", err)
	}
	if none {
		err = &participant.NoEffectError{Err: err}
	}
	return err == nil, err
}

// execer is a pool or a connection.
type execer interface {
	Exec(ctx context.Context, sql string, args ...any) (pgconn.CommandTag, error)
}

func finishPrepared(ctx context.Context, on execer, statement, xid string) error {
	name, err := literal(xid)
	if err != nil {
		return &participant.NoEffectError{Err: err}
	}
	tag, err := on.Exec(ctx, statement+" "+name, pgx.QueryExecModeSimpleProtocol)
	if err == nil && tag.String() != statement {
		return fmt.Errorf("%s was answered by %q", statement, tag)
	}
	return err
}

// fencePatience bounds one call's wait for a session to end, and lookAgain is
// how often it looks.
const (
	fencePatience = 10 * time.Second
	lookAgain     = 5 * time.Millisecond
)

// errStillOpen is why a branch is not over when the patience is.
var errStillOpen = errors.New("its session still holds its work")

// Rollback implements [participant.Participant].
func (r *resource) Rollback(ctx context.Context, b participant.Branch) (_ participant.Result, err error) {
	ctx, fail := r.call(ctx, "rollback "+clip(b.XID))
	defer fail(&err)
	return untilOver(ctx, func(ctx context.Context) (participant.Result, error, error) { return r.rollback(ctx, b) })
}

// untilOver looks until the session of a branch has ended, within limits.
func untilOver(ctx context.Context, look func(context.Context) (_ participant.Result, stillOpen, err error)) (participant.Result, error) {
	ctx, cancel := context.WithTimeout(ctx, fencePatience)
	defer cancel()
	again := time.NewTicker(lookAgain)
	defer again.Stop()
	var why error
	for {
		result, stillOpen, err := look(ctx)
		switch {
		case stillOpen != nil:
			why = stillOpen
		case err != nil && ctx.Err() != nil:
			return participant.Result{}, errors.Join(why, err) // what stood in the way, if that was seen
		default:
			return result, err
		}
		select {
		case <-ctx.Done():
			return participant.Result{}, why
		case <-again.C:
		}
	}
}

// rollback looks once. stillOpen says why it has to look again.
func (r *resource) rollback(ctx context.Context, b participant.Branch) (_ participant.Result, stillOpen, err error) {
	// This comes first each time: the session may have prepared meanwhile. A branch that did not vote yes is looked for
	// before, since a statement that does not find it is an ERROR in the server's log.
	if err := r.own(b); err != nil {
		return participant.Result{}, nil, &participant.NoEffectError{Err: err}
	}
	found := b.Vote == txn.VotePrepared
	if !found {
		if found, err = r.isPrepared(ctx, b.XID); err != nil {
			return participant.Result{}, nil, &participant.NoEffectError{Err: err}
		}
	}
	if found {
		found, err = r.finish(ctx, rollbackPrepared, b)
	}
	if err != nil {
		return participant.Result{}, nil, err
	}
	if found {
		return participant.Result{Ending: participant.RolledBack, Detail: rollbackPrepared}, nil, nil
	}
	return r.rollbackGone(ctx, b)
}

// isPrepared reports whether a branch is prepared in any database of the server.
func (r *resource) isPrepared(ctx context.Context, xid string) (found bool, err error) {
	err = r.pool.QueryRow(ctx, "SELECT EXISTS (SELECT FROM pg_prepared_xacts WHERE gid = $1)", xid).Scan(&found)
	return found, err
}

// rollbackGone finds out how a branch ended that is not prepared, and ends its
// session when that still has it.
func (r *resource) rollbackGone(ctx context.Context, b participant.Branch) (_ participant.Result, stillOpen, err error) {
	never := participant.Result{Ending: participant.RolledBack, Detail: "it is not prepared; no session is on record"}
	if b.NeedsProof() {
		never.Ending = participant.Unknown // somebody has ended it, one way or the other
	}
	s, err := ParseSession(b.Session)
	if err != nil {
		return never, nil, nil
	}
	e, err := r.evidence(ctx, s)
	switch {
	case err != nil:
		return participant.Result{}, nil, err
	case e.line == without, e.status == xactAborted, e.status == xactCommitted && e.line == inherited,
		e.status == xactFuture && e.line == otherTimeline:
		ending, how := e.ending(b.Vote == txn.VotePrepared)
		return participant.Result{Ending: ending, Detail: how}, nil, nil
	case e.status == xactInProgress && r.fenced:
		// Also when the server seems to have begun a new life: if the session is
		// there, it has not.
		anothers, stillOpen, err := r.endOpen(ctx, s, e)
		if err != nil || !anothers || b.Vote == txn.VotePrepared {
			return participant.Result{}, stillOpen, err
		}
		never.Detail = renewedDetail
	case e.renewed && !b.NeedsProof() && (e.surely && !e.reached || e.status != xactCommitted):
		// Its session is gone with the server's earlier life; its number may be another's now.
		// One that the server had received is another's only if a recovery before the latest
		// lost it: more likely the application committed the branch past the SDK.
		never.Detail = renewedDetail
	case e.status == xactCommitted:
		ending, how := e.ending(b.Vote == txn.VotePrepared || !e.renewed)
		return participant.Result{Ending: ending, Detail: how}, nil, nil
	case e.status == xactInProgress:
		never.Detail = "it is not prepared; its session is still open and not to be fenced off"
	default:
		never.Detail = "it is not prepared; the server does not know its transaction number"
	}
	return never, nil, nil
}

const renewedDetail = "it is not prepared; the server has restarted, failed over or been restored since its session began"
