package mariadb

import (
	"context"
	"fmt"
	"strconv"

	"github.com/txmgr/txmgr/participant/mariadb/internal/connect"
	"github.com/txmgr/txmgr/participant/mariadb/internal/errno"
)

// fence ends the connection that holds the branch's row, if it is of this start of the server and
// the branch is not prepared: then it cannot serve other work.
func (t *task) fence(ctx context.Context) (result, error) {
	t.fenced = true
	listed, err := t.r.isPrepared(ctx, t.n)
	if err != nil || listed {
		return retryUnless(errStillOpen, err)
	}
	start, err := t.r.start(ctx)
	if err == nil && start == t.s.Start {
		err = t.r.killConnection(ctx, t.s.Conn)
	}
	return retryUnless(fmt.Errorf("%w: KILL was sent to connection %d", errStillOpen, t.s.Conn), err)
}

// killConnection ends a connection (KILL), and does not wait until it has ended.
func (r *resourceManager) killConnection(ctx context.Context, conn uint64) error {
	_, err := r.db.ExecContext(ctx, "KILL CONNECTION "+strconv.FormatUint(conn, 10))
	switch errno.Of(err) {
	case errno.NoThread:
		return nil
	case errno.KillDenied:
		return fmt.Errorf("%w (connection %d), which the coordinator's user may not end; run GRANT CONNECTION ADMIN ON *.* TO %s: %w", errStillOpen, conn, connect.CurrentUser(ctx, r.db), err)
	}
	return err
}
