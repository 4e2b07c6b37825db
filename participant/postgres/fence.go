package postgres

import (
	"context"
	"fmt"
)

// fence terminates the session if it is still at the branch's work: the same
// process, started at the same instant, with the same transaction number. why
// says what stands in the way when the work is still there later.
func (r *resource) fence(ctx context.Context, s Session) (why, err error) {
	var ended, hidden bool
	var user, otherName string
	err = r.pool.QueryRow(ctx, `
		WITH seen AS MATERIALIZED (
			SELECT backend_start, backend_xid FROM pg_stat_get_activity($1::int)
		), target AS MATERIALIZED (
			SELECT 1 FROM seen WHERE backend_start = $2::timestamptz AND backend_xid = ($3::text::xid8)::xid
		)
		SELECT coalesce((SELECT pg_terminate_backend($1::int) FROM target), false),
			coalesce((SELECT backend_start IS NULL FROM seen), false),
			quote_ident(current_user),
			coalesce((SELECT min(gid) FROM pg_prepared_xacts WHERE transaction = ($3::text::xid8)::xid), '')`,
		s.PID, s.Start, fmt.Sprint(s.XID)).Scan(&ended, &hidden, &user, &otherName)
	switch {
	case stateOf(err) == stateNotAllowed:
		return nil, fmt.Errorf("%w (process %d), which the coordinator's user may not terminate; GRANT pg_signal_backend to it, or set fence=off: %w", errStillOpen, s.PID, err)
	case err != nil:
		return nil, err
	case hidden:
		return nil, fmt.Errorf("%w (process %d), which user %s may not see; run GRANT pg_read_all_stats, pg_signal_backend TO %s, or set fence=off", errStillOpen, s.PID, user, user)
	case otherName != "":
		// Or it has prepared just now, under its own name, which the next look finds.
		return fmt.Errorf("its work is prepared under the name %q", otherName), nil
	case !ended:
		return fmt.Errorf("%w: transaction %d is in progress, but not in process %d", errStillOpen, s.XID, s.PID), nil
	}
	return fmt.Errorf("%w: process %d was told to terminate", errStillOpen, s.PID), nil
}
