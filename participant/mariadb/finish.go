package mariadb

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/txmgr/txmgr/participant"
	"github.com/txmgr/txmgr/txn"
)

// The statements that finish a branch.
const (
	xaCommit   = "XA COMMIT"
	xaRollback = "XA ROLLBACK"
)

// patience bounds one call's wait for somebody else, and lookAgain is how often
// it looks.
const (
	patience  = 10 * time.Second
	lookAgain = 5 * time.Millisecond
)

// task is one call of Commit, Rollback or Settle.
type task struct {
	r      *resource
	b      participant.Branch
	s      Session // zero: none on record
	n      xaName
	settle bool // drive it nowhere
	fenced bool // its session has been told to end
	aged   bool // it was looked whether its session is of an earlier start of the server
}

func (r *resource) task(b participant.Branch) (*task, error) {
	n, err := r.own(b)
	if err != nil {
		return nil, &participant.NoEffectError{Err: err}
	}
	s, _ := ParseSession(b.Session) // one that cannot be read is none
	if r.proof == "" {
		s.Table = ""
	}
	return &task{r: r, b: b, s: s, n: n}, nil
}

// result is what one look led to: an end, or why there has to be another one.
type result struct {
	participant.Result
	why error // nil: it is the end
}

func ended(e participant.Ending, detail string) (result, error) {
	return result{Result: participant.Result{Ending: e, Detail: detail}}, nil
}

func again(why error) (result, error) { return result{why: why}, nil }

// until repeats try until it comes to an end, or patience does.
func (t *task) until(ctx context.Context, try func(context.Context) (result, error)) (participant.Result, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	tick := time.NewTicker(lookAgain)
	defer tick.Stop()
	var why error
	for {
		res, err := try(ctx)
		switch {
		case err != nil && ctx.Err() != nil:
			return participant.Result{}, errors.Join(why, err) // what stood in the way, if that was seen
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
func (r *resource) Commit(ctx context.Context, b participant.Branch) (_ participant.Result, err error) {
	ctx, fail := r.call(ctx, "commit "+clip(b.XID))
	defer fail(&err)
	t, err := r.task(b)
	if err != nil {
		return participant.Result{}, err
	}
	return t.until(ctx, t.commit)
}

// commit looks once, and does what can be done now.
func (t *task) commit(ctx context.Context) (result, error) {
	row, err := t.r.row(ctx, t.b.XID)
	if err != nil {
		return result{}, &participant.NoEffectError{Err: err}
	}
	if row != rowNone {
		return t.byRow(ctx, row)
	}
	old, err := t.old(ctx)
	if err != nil {
		return result{}, &participant.NoEffectError{Err: err}
	}
	if old || t.r.hasty {
		return t.committed(ctx, t.finish(ctx, xaCommit))
	}
	c, err := t.r.census(ctx)
	if err != nil {
		return result{}, &participant.NoEffectError{Err: err}
	}
	if !c.has(t.n) {
		res, err := t.gone(ctx, c)
		if err != nil {
			err = &participant.NoEffectError{Err: err} // it only asked
		}
		return res, err
	}
	if why, err := t.release(ctx, c); why != nil || err != nil {
		if err != nil {
			err = &participant.NoEffectError{Err: err}
		}
		return result{why: why}, err
	}
	return t.committed(ctx, t.finish(ctx, xaCommit))
}

// old reports, once, whether the server was restarted since the session began:
// then nothing is bound to a connection of that time, and there is no need to look.
func (t *task) old(ctx context.Context) (bool, error) {
	if t.aged || !t.s.known() || t.r.hasty {
		return false, nil
	}
	t.aged = true
	start, err := t.r.start(ctx)
	return start != t.s.Start, err
}

// byRow is the end that the row of proof tells.
func (t *task) byRow(ctx context.Context, row int) (result, error) {
	if row == rowBarrier {
		if t.b.NeedsProof() && !t.s.proved() {
			return ended(participant.Unknown, t.lost())
		}
		return ended(participant.RolledBack, "it was kept from beginning: a barrier is in "+string(t.r.proof))
	}
	switch err := t.r.confirm(ctx, t.b.XID); {
	case numberOf(err) == codeLockTimeout:
		return again(errBusy)
	case err != nil:
		return result{}, &participant.NoEffectError{Err: fmt.Errorf("see to it that its end is on disk: %w", err)}
	}
	return ended(participant.Committed, "its row is in "+string(t.r.proof))
}

// committed looks what an answer to XA COMMIT means.
func (t *task) committed(ctx context.Context, err error) (result, error) {
	switch {
	case numberOf(err) == codeNOTA, rolledBackBy(err):
		return again(errElsewhere) // the next census tells
	case err != nil:
		return result{}, err
	case !t.s.proved():
		return ended(participant.Committed, xaCommit)
	}
	row, err := t.r.row(ctx, t.b.XID)
	switch {
	case err != nil:
		return result{}, err
	case row == rowWork:
		return ended(participant.Committed, xaCommit)
	}
	if err := t.r.sameTable(ctx, t.s); err != nil {
		return result{}, err
	}
	return result{}, fmt.Errorf("XA COMMIT was answered with success, but the branch is not committed: %w", errGhost)
}

// errElsewhere says why a prepared branch is not known to our session.
var errElsewhere = errors.New("it is prepared, but bound to a session: of somebody who is finishing it, or one that is not on record")

// gone finds out how a branch ended that is not prepared. The list was read
// before the row: what is committed has its row before it leaves the list.
func (t *task) gone(ctx context.Context, c *census) (result, error) {
	row, err := t.r.row(ctx, t.b.XID)
	switch {
	case err != nil:
		return result{}, err
	case row != rowNone:
		return t.byRow(ctx, row)
	case !t.s.proved():
		return ended(participant.Unknown, "it is not prepared; "+t.noProof())
	}
	if err := t.r.sameTable(ctx, t.s); err != nil {
		return result{}, err
	}
	held, err := t.r.held(ctx, t.b.XID)
	switch {
	case err != nil:
		return result{}, err
	case held && c.holds(t.s):
		return result{}, fmt.Errorf("it is not prepared, and %w (connection %d): its vote was wrong", errStillOpen, t.s.Conn)
	case held:
		return again(errGhost)
	}
	return ended(participant.RolledBack, "it is not prepared, and no row in "+string(t.r.proof)+" says that it was committed")
}

// lost says that a branch is not there that nothing is known of.
func (t *task) lost() string {
	if t.b.Vote == txn.VoteEndedByHand {
		return "it was ended by statements of the application's own; " + t.noProof()
	}
	return "it voted yes and is not prepared any more; " + t.noProof()
}

// noProof says why nothing is known of a branch that is not there.
func (t *task) noProof() string {
	why := "no session is on record"
	switch {
	case t.s.known() && t.r.proof == "":
		why = "no proof is kept (proof=off)"
	case t.s.known():
		why = "its session wrote no row of proof"
	}
	switch {
	case t.b.Attempts > 0:
		why += "; an attempt whose answer was lost may have finished it"
	case t.b.OwnPhaseTwo:
		why += "; the application may have finished it"
	}
	return why
}

// finish runs one of the statements. An error means that the branch may or may
// not have been finished, unless it is a [participant.NoEffectError].
func (t *task) finish(ctx context.Context, statement string) error {
	_, err := t.r.db.ExecContext(ctx, statement+" "+t.n.literal())
	none := noEffect(err)
	switch numberOf(err) {
	case codeLockTimeout:
		err = fmt.Errorf("a backup, or FLUSH TABLES WITH READ LOCK, holds up all commits: %w", err)
	case codeReadOnly:
		err = fmt.Errorf("the server is read-only; connect to the primary: %w", err)
	}
	if none {
		err = &participant.NoEffectError{Err: err}
	}
	return err
}
