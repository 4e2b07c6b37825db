package mariadb

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/txmgr/txmgr/participant"
	"github.com/txmgr/txmgr/participant/internal/excerpt"
	"github.com/txmgr/txmgr/participant/mariadb/internal/errno"
	"github.com/txmgr/txmgr/participant/mariadb/internal/markertable"
	"github.com/txmgr/txmgr/participant/mariadb/internal/xa"
	"github.com/txmgr/txmgr/txn"
)

// The statements that finish a branch.
const (
	xaCommit   = "XA COMMIT"
	xaRollback = "XA ROLLBACK"
)

// callTimeout bounds how long one call waits, and pollInterval is the time between two attempts.
const (
	callTimeout  = 10 * time.Second
	pollInterval = 5 * time.Millisecond
)

// task is one call of Commit, Rollback, ResolveOutcome or Inspect.
type task struct {
	r              *resourceManager
	b              participant.Branch
	s              SessionRef // zero: none is recorded
	n              xa.Name
	resolveOnly    bool // only determine the outcome
	seenHeld       bool // the branch was open or prepared during this call
	fenced         bool // fence was called
	restartChecked bool // serverRestarted has compared the starts of the server
}

func (r *resourceManager) task(b participant.Branch) (*task, error) {
	n, err := r.own(b)
	if err != nil {
		return nil, &participant.NoEffectError{Err: err}
	}
	s, _ := ParseSessionRef(b.SessionRef) // an invalid one counts as none
	if r.markers == "" {
		s.Table = ""
	}
	return &task{r: r, b: b, s: s, n: n}, nil
}

// result is the result of one attempt: an outcome, or the reason for another attempt.
type result struct {
	participant.Result
	why error // nil: Result is final
}

func finalResult(e participant.BranchOutcome, detail string) (result, error) {
	return result{Result: participant.Result{Outcome: e, Detail: detail}}, nil
}

func retry(why error) (result, error) { return result{why: why}, nil }

// poll repeats try until its result is final, for up to callTimeout.
func (t *task) poll(ctx context.Context, try func(context.Context) (result, error)) (participant.Result, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	tick := time.NewTicker(pollInterval)
	defer tick.Stop()
	var why error
	for {
		res, err := try(ctx)
		switch {
		case err != nil && ctx.Err() != nil:
			return participant.Result{}, errors.Join(why, err) // with the last reason, if there was one
		case err != nil || res.why == nil:
			return res.Result, err
		}
		why = res.why
		select {
		case <-ctx.Done():
			return participant.Result{}, why
		case <-tick.C:
		}
	}
}

// Commit implements [participant.Participant].
func (r *resourceManager) Commit(ctx context.Context, b participant.Branch) (_ participant.Result, err error) {
	ctx, fail := r.calls.Begin(ctx, "commit "+excerpt.Of(b.XID))
	defer fail(&err)
	t, err := r.task(b)
	if err != nil {
		return participant.Result{}, err
	}
	return t.poll(ctx, t.commit)
}

// commit makes one attempt.
func (t *task) commit(ctx context.Context) (result, error) {
	row, err := t.r.markers.Kind(ctx, t.r.db, t.b.XID)
	if err != nil {
		return result{}, &participant.NoEffectError{Err: err}
	}
	if row != markertable.None {
		return t.byMarker(ctx, row)
	}
	old, err := t.serverRestarted(ctx)
	if err != nil {
		return result{}, &participant.NoEffectError{Err: err}
	}
	if old || t.r.skipDisconnect {
		return t.checkCommitted(ctx, t.finish(ctx, xaCommit))
	}
	c, err := t.r.snapshot(ctx)
	if err != nil {
		return result{}, &participant.NoEffectError{Err: err}
	}
	if !c.isPrepared(t.n) {
		res, err := t.notPrepared(ctx, c)
		if err != nil {
			err = &participant.NoEffectError{Err: err} // it only queried
		}
		return res, err
	}
	t.seenHeld = true
	if why, err := t.disconnect(ctx, c); why != nil || err != nil {
		if err != nil {
			err = &participant.NoEffectError{Err: err}
		}
		return result{why: why}, err
	}
	return t.checkCommitted(ctx, t.finish(ctx, xaCommit))
}

// serverRestarted reports, once, whether the server was restarted since the branch was enlisted:
// then the branch is bound to no connection, and INNODB_TRX need not be read.
func (t *task) serverRestarted(ctx context.Context) (bool, error) {
	if t.restartChecked || !t.s.recorded() || t.r.skipDisconnect {
		return false, nil
	}
	t.restartChecked = true
	start, err := t.r.start(ctx)
	return start != t.s.Start, err
}

// byMarker returns the outcome that the marker row proves.
func (t *task) byMarker(ctx context.Context, row int) (result, error) {
	if row == markertable.Barrier {
		if !t.missingRowProves() {
			return finalResult(participant.Unknown, t.lostReason())
		}
		return finalResult(participant.RolledBack, "it cannot begin any more: a barrier is in "+string(t.r.markers))
	}
	switch err := t.r.markers.ConfirmDurable(ctx, t.r.db, t.b.XID); {
	case errno.Of(err) == errno.LockTimeout:
		return retry(markertable.ErrBusy)
	case err != nil:
		return result{}, &participant.NoEffectError{Err: fmt.Errorf("confirm that its commit is on disk: %w", err)}
	}
	return finalResult(participant.Committed, "its row is in "+string(t.r.markers))
}

// missingRowProves reports whether a branch that is neither open nor prepared, and has no row of its
// own, was rolled back. The row of a commit is removed when the log needs it no more, and a log that
// was restored from a backup does not know of that; but not while the branch is open or prepared. A
// barrier proves no more: it may have been written after the row was removed.
func (t *task) missingRowProves() bool {
	return !t.b.MayBeCommitted() || t.s.hasMarker() && (!t.b.BeforeRestore || t.seenHeld)
}

// checkCommitted determines the outcome after XA COMMIT.
func (t *task) checkCommitted(ctx context.Context, err error) (result, error) {
	switch {
	case errno.Of(err) == errno.NOTA, errno.IsRolledBack(err):
		return retry(errBoundElsewhere) // the next snapshot decides
	case err != nil:
		return result{}, err
	case !t.s.hasMarker():
		return finalResult(participant.Committed, xaCommit)
	}
	row, err := t.r.markers.Kind(ctx, t.r.db, t.b.XID)
	switch {
	case err != nil:
		return result{}, err
	case row == markertable.Commit:
		return finalResult(participant.Committed, xaCommit)
	}
	if err := t.r.markers.CheckSame(ctx, t.r.db, t.s.Table); err != nil {
		return result{}, err
	}
	return result{}, fmt.Errorf("XA COMMIT was answered with success, but the branch is not committed: %w", errOrphaned)
}

// The reasons why a branch has not ended yet.
var (
	errStillOpen = errors.New("its connection still holds its transaction open")
	errOrphaned  = errors.New("the server holds its locks, but neither lists it as prepared nor has a connection for it: either it is still being rolled back after a crash, or a commit or rollback was sent too early and the server has lost the branch; in that case restart the server, which lists it again")
)

// errBoundElsewhere says why the server does not know a prepared branch in this connection.
var errBoundElsewhere = errors.New("it is prepared, but bound to a connection: one that is finishing it, or one that is not recorded")

// notPrepared determines the outcome of a branch that is not prepared. The list was read before
// the row: a committed branch has its row before it leaves the list.
func (t *task) notPrepared(ctx context.Context, c *serverSnapshot) (result, error) {
	row, err := t.r.markers.Kind(ctx, t.r.db, t.b.XID)
	switch {
	case err != nil:
		return result{}, err
	case row != markertable.None:
		return t.byMarker(ctx, row)
	case !t.s.hasMarker():
		return finalResult(participant.Unknown, "it is not prepared; "+t.noMarkerReason())
	}
	if err := t.r.markers.CheckSame(ctx, t.r.db, t.s.Table); err != nil {
		return result{}, err
	}
	held, err := t.r.markers.Locked(ctx, t.r.db, t.b.XID)
	switch {
	case err != nil:
		return result{}, err
	case held && c.isBound(t.s):
		return result{}, fmt.Errorf("it is not prepared, and %w (connection %d): its vote was wrong", errStillOpen, t.s.Conn)
	case held:
		return retry(errOrphaned)
	case !t.missingRowProves():
		return finalResult(participant.Unknown, t.lostReason())
	}
	return finalResult(participant.RolledBack, "it is not prepared, and no row in "+string(t.r.markers)+" says that it was committed")
}

// lostReason says why the outcome of a branch that may be committed is unknown.
func (t *task) lostReason() string {
	switch {
	case t.b.Vote == txn.VoteEndedByApplication:
		return "it was ended by statements of the application's own; " + t.noMarkerReason()
	case t.b.BeforeRestore:
		return "it is not prepared, and the coordinator, which was restored from a backup, does not know what was decided after that; " + t.noMarkerReason()
	}
	return "it voted yes and is not prepared any more; " + t.noMarkerReason()
}

// noMarkerReason says why nothing proves the outcome of a branch that is not prepared.
func (t *task) noMarkerReason() string {
	why := "no session reference is recorded"
	switch {
	case t.s.hasMarker():
		why = "if it was committed then, its row in " + string(t.r.markers) + " was removed: compare with the data, and with the other branches"
	case t.s.recorded() && t.r.markers == "":
		why = "no marker rows are written (commit_marker=off)"
	case t.s.recorded():
		why = "its connection wrote no marker row"
	}
	switch {
	case t.b.Attempts > 0:
		why += "; an attempt whose answer was lost may have finished it"
	case t.b.ClientCompletes:
		why += "; the application may have finished it"
	}
	return why
}

// finish runs one of the statements. An error means that the branch may or may
// not have been finished, unless it is a [participant.NoEffectError].
func (t *task) finish(ctx context.Context, statement string) error {
	_, err := t.r.db.ExecContext(ctx, statement+" "+t.n.Literal())
	none := errno.NoEffect(err)
	switch errno.Of(err) {
	case errno.LockTimeout:
		err = fmt.Errorf("a backup, or FLUSH TABLES WITH READ LOCK, blocks all commits: %w", err)
	case errno.ReadOnly:
		err = fmt.Errorf("the server is read-only; connect to the primary: %w", err)
	}
	if none {
		err = &participant.NoEffectError{Err: err}
	}
	return err
}
