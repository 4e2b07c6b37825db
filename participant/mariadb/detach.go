package mariadb

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// detach sees to it that no connection is bound to a prepared branch, nor on its
// way out of the server with it: until it is gone, XA COMMIT from elsewhere can
// be answered with success and lose the branch.
func (t *task) detach(ctx context.Context) error {
	if t.s.known() {
		return t.r.end(ctx, t.s.Conn)
	}
	return t.r.unclaimed(ctx)
}

// end ends a connection, and returns when it has left the server.
func (r *resource) end(ctx context.Context, conn uint64) error {
	_, err := r.db.ExecContext(ctx, "KILL CONNECTION "+strconv.FormatUint(conn, 10))
	switch numberOf(err) {
	case 0:
	case codeNoThread:
		err = nil
	case codeKillDenied:
		return fmt.Errorf("%w (connection %d), which the coordinator's user may not end; run GRANT CONNECTION ADMIN ON *.* TO %s: %w", errStillOpen, conn, user(ctx, r.db), err)
	}
	if err != nil || r.hasty {
		return err
	}
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for {
		var there bool
		err := r.db.QueryRowContext(ctx, fmt.Sprintf("SELECT EXISTS(SELECT 1 FROM information_schema.PROCESSLIST WHERE ID = %d)", conn)).Scan(&there)
		if err != nil || !there {
			return err
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("connection %d has been told to end, and is still rolling back: %w", conn, ctx.Err())
		case <-tick.C:
		}
	}
}

// unclaimed is for a branch of which it is not known which connection prepared
// it. It returns when every transaction has ended that was open in a connection
// when the branch was already prepared: so it was none of them.
func (r *resource) unclaimed(ctx context.Context) error {
	suspects, err := r.attached(ctx)
	for err == nil && len(suspects) > 0 {
		var now map[openTx]bool
		if now, err = r.attached(ctx); err == nil || ctx.Err() == nil {
			for s := range suspects {
				if !now[s] {
					delete(suspects, s)
				}
			}
		}
	}
	if err != nil && len(suspects) > 0 {
		var names []string
		for s := range suspects {
			names = append(names, strconv.FormatUint(s.conn, 10))
		}
		return fmt.Errorf("which connection prepared it is not on record, and it may still be bound to one of these, whose transactions are open: %s; end the right one (KILL) or wait: %w", strings.Join(names, ", "), err)
	}
	return err
}

// openTx is a transaction of InnoDB that belongs to a connection.
type openTx struct {
	conn        uint64
	id, started string
}

// attached lists the transactions that belong to connections, other than ours.
func (r *resource) attached(ctx context.Context) (map[openTx]bool, error) {
	all, err := r.transactions(ctx)
	if err != nil {
		return nil, err
	}
	open := map[openTx]bool{}
	for _, x := range all {
		if x.conn != 0 {
			open[openTx{x.conn, x.id, x.started}] = true
		}
	}
	return open, nil
}
