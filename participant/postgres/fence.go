package postgres

import (
	"context"
	"errors"
	"fmt"

	"github.com/txmgr/txmgr/participant/internal/excerpt"
	"github.com/txmgr/txmgr/participant/postgres/internal/sqlstate"
)

// Why a transaction is in progress although its backend does not run it.
var (
	errPrepared     = errors.New("its work is prepared")
	errNotInBackend = errors.New("its connection does not run it")
)

// fence terminates the backend if it still runs the branch's transaction: the same process,
// started at the same instant, with the same transaction number. why is the reason to report if
// the transaction is still in progress later: [errStillOpen], or one of the above.
func (r *resourceManager) fence(ctx context.Context, s SessionRef) (why, err error) {
	var found, hidden bool
	var user, otherName string
	err = r.pool.QueryRow(ctx, `
		WITH seen AS MATERIALIZED (
			SELECT backend_start, backend_xid FROM pg_stat_get_activity($1::int)
		), target AS MATERIALIZED (
			SELECT 1 FROM seen WHERE backend_start = $2::timestamptz AND backend_xid = ($3::text::xid8)::xid
		), ended AS MATERIALIZED (
			SELECT pg_terminate_backend($1::int) FROM target WHERE $4
		)
		SELECT EXISTS (SELECT FROM target) AND (NOT $4 OR EXISTS (SELECT FROM ended)),
			coalesce((SELECT backend_start IS NULL FROM seen), false),
			quote_ident(current_user),
			coalesce((SELECT min(gid) FROM pg_prepared_xacts WHERE transaction = ($3::text::xid8)::xid), '')`,
		s.PID, s.Start, fmt.Sprint(s.XID), r.fenced).Scan(&found, &hidden, &user, &otherName)
	switch {
	case sqlstate.Of(err) == sqlstate.NotAllowed:
		return nil, fmt.Errorf("%w (process %d), which the coordinator's user may not terminate; GRANT pg_signal_backend to it, or set fence=off: %w", errStillOpen, s.PID, err)
	case err != nil:
		return nil, err
	case hidden:
		return nil, fmt.Errorf("%w (process %d), which user %s may not see; run GRANT pg_read_all_stats, pg_signal_backend TO %s, or set fence=off", errStillOpen, s.PID, user, user)
	case otherName != "":
		// The branch may also have prepared meanwhile, under its own name: the next query finds it.
		return fmt.Errorf("%w under the name %q", errPrepared, excerpt.Of(otherName)), nil
	case !found:
		return fmt.Errorf("%w: transaction %d is in progress, but not in process %d", errNotInBackend, s.XID, s.PID), nil
	case !r.fenced:
		return fmt.Errorf("%w: process %d has to end it by itself, because of fence=off", errStillOpen, s.PID), nil
	}
	return fmt.Errorf("%w: process %d was signalled to terminate", errStillOpen, s.PID), nil
}

// terminateBackend terminates the backend of a transaction whose status was "in progress", or
// determines that the server has assigned the number to another transaction (anothers).
// stillOpen says what to wait for.
func (r *resourceManager) terminateBackend(ctx context.Context, s SessionRef, e xactStatus) (anothers bool, stillOpen, err error) {
	stillOpen, err = r.fence(ctx, s)
	if err != nil || !e.crashRecovered || !errors.Is(stillOpen, errNotInBackend) {
		return false, stillOpen, err
	}
	// The transaction may have ended between the two queries. If it is still in progress, the
	// backend did not run it at the time of the query, and so never did.
	now, err := r.xactStatus(ctx, s)
	if err != nil {
		return false, stillOpen, err
	}
	return now.status == xactInProgress, stillOpen, nil
}
