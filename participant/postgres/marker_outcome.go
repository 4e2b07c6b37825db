package postgres

import (
	"context"
	"errors"
	"fmt"

	"github.com/txmgr/txmgr/participant"
	"github.com/txmgr/txmgr/participant/postgres/internal/markertable"
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
		return 0, fmt.Errorf("the application writes its marker rows to another table (%v; %s here is %v): register the database that it uses, with the same commit_marker; or the table was dropped since, and with it the proof of commits", s.Table, r.markers, row.ID)
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

// endByRow completes what the transaction number of a branch says of its end: where that proves
// nothing, the marker row does. The transaction has ended, one way or the other, so without a row it
// was not committed.
func (r *resourceManager) endByRow(ctx context.Context, b participant.Branch, s SessionRef, byNumber participant.Result) (participant.Result, error) {
	if byNumber.Outcome != participant.Unknown || !r.provedByMarker(s) {
		return byNumber, nil
	}
	kind, err := r.markerRow(ctx, b.XID, s)
	switch {
	case err != nil:
		return participant.Result{}, fmt.Errorf("%s; looking for its marker row: %w", byNumber.Detail, err)
	case kind == markertable.Commit:
		return participant.Result{Outcome: participant.Committed, Detail: "its row is in " + string(r.markers)}, nil
	case b.BeforeRestore:
		return participant.Result{Outcome: participant.Unknown, Detail: removedRowDetail(byNumber.Detail)}, nil
	}
	return participant.Result{Outcome: participant.RolledBack, Detail: "it is not prepared, and no row in " + string(r.markers) + " says that it was committed"}, nil
}

// provedByMarker reports whether the marker row proves the outcome of a branch.
func (r *resourceManager) provedByMarker(s SessionRef) bool { return r.markers != "" && s.hasMarker() }
