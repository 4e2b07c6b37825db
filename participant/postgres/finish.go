package postgres

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/txmgr/txmgr/participant"
	"github.com/txmgr/txmgr/participant/internal/excerpt"
	"github.com/txmgr/txmgr/participant/postgres/internal/sqlstate"
	"github.com/txmgr/txmgr/participant/postgres/internal/sqltext"
	"github.com/txmgr/txmgr/txn"
)

// Commit implements [participant.Participant].
func (r *resourceManager) Commit(ctx context.Context, b participant.Branch) (_ participant.Result, err error) {
	ctx, fail := r.calls.Begin(ctx, "commit "+excerpt.Of(b.XID))
	defer fail(&err)
	found, err := r.finish(ctx, commitPrepared, b)
	if err != nil {
		return participant.Result{}, err
	}
	if found {
		return participant.Result{Outcome: participant.Committed, Detail: commitPrepared}, nil
	}
	result, err := r.commitNotPrepared(ctx, b)
	if err != nil {
		return participant.Result{}, &participant.NoEffectError{Err: err} // it only queried
	}
	return result, nil
}

// commitNotPrepared determines the outcome of a branch that is not prepared. That another client
// may have committed it is not proof: yet another may have rolled it back.
func (r *resourceManager) commitNotPrepared(ctx context.Context, b participant.Branch) (participant.Result, error) {
	why := "no session reference is recorded"
	if s, err := ParseSessionRef(b.SessionRef); err == nil {
		// A branch that voted yes was on disk with its number: restarts do not matter.
		e, err := r.xactStatus(ctx, s)
		if err != nil {
			return participant.Result{}, err
		}
		ending, how := e.outcome(true)
		result := participant.Result{Outcome: ending, Detail: how}
		switch {
		case ending == 0:
			return participant.Result{}, e.inProgressError()
		case ending == participant.Unknown:
			result, err = r.endByRow(ctx, b, s, result)
		}
		if err != nil || result.Outcome != participant.Unknown {
			return result, err
		}
		why = result.Detail
	}
	switch {
	case b.Attempts > 0:
		why += "; an attempt whose answer was lost may have committed it"
	case b.ClientCompletes:
		why += "; the application may have committed it"
	}
	return participant.Result{Outcome: participant.Unknown, Detail: "it is not prepared; " + why}, nil
}

// The statements that finish a branch, which are also their command tags.
const (
	commitPrepared   = "COMMIT PREPARED"
	rollbackPrepared = "ROLLBACK PREPARED"
)

// finish runs one of the statements. found is false if the branch is not prepared. An error
// means that the branch may or may not have been finished, unless it is a
// [participant.NoEffectError].
func (r *resourceManager) finish(ctx context.Context, statement string, b participant.Branch) (found bool, err error) {
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
	none := sqlstate.NoEffect(err)
	switch sqlstate.Of(err) {
	case sqlstate.NotFound:
		return false, nil
	case sqlstate.OtherDatabase:
		err = fmt.Errorf("it is prepared in another database of the server; register that database: %w", err)
	case sqlstate.NotAllowed:
		err = fmt.Errorf("connect as the user that prepared it, or as a superuser: %w", err)
	case sqlstate.Busy:
		err = fmt.Errorf("another backend is finishing it: %w", err)
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
	name, err := sqltext.Literal(xid)
	if err != nil {
		return &participant.NoEffectError{Err: err}
	}
	tag, err := on.Exec(ctx, statement+" "+name, pgx.QueryExecModeSimpleProtocol)
	if err == nil && tag.String() != statement {
		return fmt.Errorf("%s was answered by %q", statement, tag)
	}
	return err
}

// fenceTimeout bounds how long one call waits for a backend to end, and pollInterval is the time
// between two checks.
const (
	fenceTimeout = 10 * time.Second
	pollInterval = 5 * time.Millisecond
)

// errStillOpen is the reason if a branch has not ended within fenceTimeout.
var errStillOpen = errors.New("its connection still holds its transaction open")

// Rollback implements [participant.Participant].
func (r *resourceManager) Rollback(ctx context.Context, b participant.Branch) (_ participant.Result, err error) {
	ctx, fail := r.calls.Begin(ctx, "rollback "+excerpt.Of(b.XID))
	defer fail(&err)
	return pollUntilEnded(ctx, func(ctx context.Context) (participant.Result, error, error) { return r.rollbackOnce(ctx, b) })
}

// pollUntilEnded repeats look until the backend of a branch has ended, for up to fenceTimeout.
func pollUntilEnded(ctx context.Context, look func(context.Context) (_ participant.Result, stillOpen, err error)) (participant.Result, error) {
	ctx, cancel := context.WithTimeout(ctx, fenceTimeout)
	defer cancel()
	again := time.NewTicker(pollInterval)
	defer again.Stop()
	var why error
	for {
		result, stillOpen, err := look(ctx)
		switch {
		case stillOpen != nil:
			why = stillOpen
		case err != nil && ctx.Err() != nil:
			return participant.Result{}, errors.Join(why, err) // with the last reason, if there was one
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

// rollbackOnce makes one attempt. stillOpen says why another is needed.
func (r *resourceManager) rollbackOnce(ctx context.Context, b participant.Branch) (_ participant.Result, stillOpen, err error) {
	// Each attempt begins with ROLLBACK PREPARED: the backend may have prepared meanwhile. For a
	// branch that did not vote yes a query comes first, because a statement that does not find
	// the branch is an ERROR in the server's log.
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
		return participant.Result{Outcome: participant.RolledBack, Detail: rollbackPrepared}, nil, nil
	}
	return r.rollbackNotPrepared(ctx, b)
}

// isPrepared reports whether a branch is prepared in any database of the server.
func (r *resourceManager) isPrepared(ctx context.Context, xid string) (found bool, err error) {
	err = r.pool.QueryRow(ctx, "SELECT EXISTS (SELECT FROM pg_prepared_xacts WHERE gid = $1)", xid).Scan(&found)
	return found, err
}

// rollbackNotPrepared determines the outcome of a branch that is not prepared, and terminates its
// backend if that still runs it.
func (r *resourceManager) rollbackNotPrepared(ctx context.Context, b participant.Branch) (_ participant.Result, stillOpen, err error) {
	never := participant.Result{Outcome: participant.RolledBack, Detail: "it is not prepared; no session reference is recorded"}
	if b.MayBeCommitted() {
		never.Outcome = participant.Unknown // another client has ended it, one way or the other
	}
	s, err := ParseSessionRef(b.SessionRef)
	if err != nil {
		return never, nil, nil
	}
	e, err := r.xactStatus(ctx, s)
	end, guessed := never, false
	switch {
	case err != nil:
		return participant.Result{}, nil, err
	case e.lineage == notInHistory, e.status == xactAborted, e.status == xactCommitted && e.lineage == inHistory,
		e.status == xactNotAssigned && e.lineage == unknownHistory:
		end.Outcome, end.Detail = e.outcome(b.Vote == txn.VotePrepared)
	case e.status == xactInProgress && r.fenced:
		// This holds even if the server seems to have begun a new lifetime: if the backend
		// exists, it has not.
		anothers, stillOpen, err := r.terminateBackend(ctx, s, e)
		if err != nil || !anothers || b.Vote == txn.VotePrepared {
			return participant.Result{}, stillOpen, err
		}
		end.Detail = recoveredDetail
	case e.crashRecovered && !b.MayBeCommitted() && (e.certain && !e.received || e.status != xactCommitted):
		// Its backend ended with the server's earlier lifetime; its number may be another
		// transaction's now. A number that the server had received is another's only if a
		// recovery before the last one lost it: more likely the application committed the branch
		// without the SDK.
		end.Detail = recoveredDetail
		guessed = e.status == xactCommitted
	case e.status == xactCommitted:
		end.Outcome, end.Detail = e.outcome(b.Vote == txn.VotePrepared || !e.crashRecovered)
	case e.status == xactInProgress:
		never.Detail = "it is not prepared; its connection is still open, and fencing is off (fence=off)"
		return never, nil, nil
	default:
		end.Detail = "it is not prepared; the server does not know its transaction number"
		guessed = true
	}
	if guessed || end.Outcome == participant.Unknown {
		end, err = r.endByRow(ctx, b, s, end)
	}
	return end, nil, err
}

const recoveredDetail = "it is not prepared; the server has restarted, failed over or been restored since its connection was opened"
