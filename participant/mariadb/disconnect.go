package mariadb

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/txmgr/txmgr/participant/mariadb/internal/innodb"
)

// disconnect ensures that a prepared branch is bound to no connection: until then, an XA COMMIT
// from another connection may report success and lose the branch. If why is nil, the branch is
// bound to none.
func (t *task) disconnect(ctx context.Context, c *serverSnapshot) (why, err error) {
	switch {
	case !t.s.recorded():
		return nil, t.r.awaitUnbound(ctx)
	case !c.isBound(t.s):
		return nil, nil
	}
	if err := t.r.killConnection(ctx, t.s.Conn); err != nil {
		return nil, err
	}
	return fmt.Errorf("it is prepared, and KILL was sent to its connection %d", t.s.Conn), nil
}

// awaitUnbound handles a branch whose connection is not recorded. It returns when every
// transaction has ended that was open in a connection when the branch was already prepared: then
// the branch is bound to none of these connections.
func (r *resourceManager) awaitUnbound(ctx context.Context) error {
	suspects, err := r.boundTransactions(ctx)
	for err == nil && len(suspects) > 0 {
		var now map[boundTx]bool
		if now, err = r.boundTransactions(ctx); err == nil || ctx.Err() == nil {
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
		return fmt.Errorf("no session reference is recorded, and it may still be bound to one of these connections, whose transactions are open: %s; end the connection that prepared it (KILL), or wait: %w", strings.Join(names, ", "), err)
	}
	return err
}

// boundTx is a transaction of InnoDB that belongs to a connection.
type boundTx struct {
	conn        uint64
	id, started string
}

// boundTransactions lists the transactions that belong to connections, except the driver's own.
func (r *resourceManager) boundTransactions(ctx context.Context) (map[boundTx]bool, error) {
	all, err := innodb.Transactions(ctx, r.db)
	if err != nil {
		return nil, err
	}
	open := map[boundTx]bool{}
	for _, x := range all {
		if x.Conn != 0 {
			open[boundTx{x.Conn, x.ID, x.Started}] = true
		}
	}
	return open, nil
}
