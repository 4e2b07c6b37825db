package postgres

import (
	"context"
	"errors"
	"fmt"

	"github.com/txmgr/txmgr/participant"
	"github.com/txmgr/txmgr/participant/postgres/internal/markertable"
	"github.com/txmgr/txmgr/participant/postgres/internal/sqlstate"
	"github.com/txmgr/txmgr/txn"
)

// ensureMarkers creates the marker table if it does not exist. That the user may not do so is an
// error only if the table is configured: without it every branch prepares.
func (r *resourceManager) ensureMarkers(ctx context.Context) error {
	if r.markers == "" {
		return nil
	}
	found, err := r.markers.Ensure(ctx, r.pool)
	switch {
	case errors.Is(err, markertable.ErrMissing) && r.settings.Markers == "":
		return nil
	case errors.Is(err, markertable.ErrMissing):
		return fmt.Errorf("the marker table %s could not be created; a user with the privilege has to run: %s; %s: %w", r.markers, r.markers.Create(), r.markers.GrantCoordinator("the coordinator's user"), err)
	case err != nil:
		return err
	case !found.MayAll:
		return fmt.Errorf("the coordinator's user may not use the marker table; a user with the privilege has to run: %s", r.markers.GrantCoordinator("the coordinator's user"))
	}
	return nil
}

// errAnotherTable means that the marker table here is not the one that a branch has written to.
var errAnotherTable = errors.New("the application writes its marker rows to another table")

// markerRow reads a branch's marker row, in the table that its session reference names: in another
// one a missing row proves nothing.
func (r *resourceManager) markerRow(ctx context.Context, xid string, s SessionRef) (kind int, err error) {
	row, err := r.markers.Read(ctx, r.pool, xid)
	switch {
	case err != nil:
		return 0, err
	case row.System != fmt.Sprint(s.System):
		return 0, anotherServerError(s.System, row.System)
	case row.Standby:
		return 0, errStandby
	case row.ID != s.Table:
		return 0, fmt.Errorf("%w (%v; %s here is %v): register the database that it uses, with the same commit_marker; or the table was dropped since, and with it the proof of commits", errAnotherTable, s.Table, r.markers, row.ID)
	}
	return row.Kind, nil
}

// byMarker returns the outcome that a branch's marker row proves; zero if there is no row. What is
// committed is on disk, or on the synchronous standby, when it returns.
func (r *resourceManager) byMarker(ctx context.Context, xid string, s SessionRef) (_ participant.Result, stillOpen, err error) {
	kind, err := r.markerRow(ctx, xid, s)
	if err != nil || kind == markertable.None {
		return participant.Result{}, nil, err
	}
	if kind != markertable.Commit {
		return participant.Result{Outcome: participant.RolledBack, Detail: "it cannot be committed any more: a barrier is in " + string(r.markers)}, nil, nil
	}
	switch err := r.markers.ConfirmDurable(ctx, r.pool, xid); {
	case errors.Is(err, markertable.ErrLocked):
		return participant.Result{}, err, nil
	case err != nil:
		return participant.Result{}, nil, fmt.Errorf("confirm that its commit is on disk: %w", err)
	}
	return participant.Result{Outcome: participant.Committed, Detail: "its row is in " + string(r.markers)}, nil, nil
}

// endByRow is the end of a branch whose transaction is over, and whose number does not prove how: what its
// marker row says, and otherwise where that proves nothing. Without a row a branch that had not voted was not
// committed. One that had may be on another server that has the same name, such as an old primary's successor.
func (r *resourceManager) endByRow(ctx context.Context, b participant.Branch, s SessionRef, otherwise participant.Result) (participant.Result, error) {
	if !r.provedByMarker(s) {
		return otherwise, nil
	}
	result, locked, err := r.byMarker(ctx, b.XID, s)
	if state := sqlstate.Of(err); errors.Is(err, errAnotherTable) || state == sqlstate.NoTable || state == sqlstate.NoSchema || state == sqlstate.NotAllowed {
		otherwise.Detail += "; " + err.Error()
		return otherwise, nil
	}
	switch {
	case locked != nil || err != nil:
		return participant.Result{}, fmt.Errorf("%s; looking for its marker row: %w", otherwise.Detail, errors.Join(locked, err))
	case result.Outcome == participant.Committed:
		return result, nil
	case b.BeforeRestore || b.Vote == txn.VotePrepared:
		return otherwise, nil
	case result.Outcome == 0:
		result = participant.Result{Outcome: participant.RolledBack, Detail: "it is not prepared, and no row in " + string(r.markers) + " says that it was committed"}
	}
	return result, nil
}

// provedByMarker reports whether the marker row proves the outcome of a branch.
func (r *resourceManager) provedByMarker(s SessionRef) bool { return r.markers != "" && s.hasMarker() }
