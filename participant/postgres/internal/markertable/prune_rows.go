package markertable

import (
	"context"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/txmgr/txmgr/participant/internal/prune"
	"github.com/txmgr/txmgr/participant/postgres/internal/sqlstate"
)

// Rows are the rows of a table, to be pruned.
type Rows struct {
	Table
	Pool *pgxpool.Pool
}

var _ prune.Table = Rows{}

// List implements [prune.Table].
func (r Rows) List(ctx context.Context, after, before string, limit int) (names []string, err error) {
	rows, err := r.Pool.Query(ctx, "SELECT xid FROM "+r.Quoted()+" WHERE xid > $1 AND xid < $2 ORDER BY xid LIMIT $3", after, before, limit)
	if err == nil {
		names, err = pgx.CollectRows(rows, pgx.RowTo[string])
	}
	if s := sqlstate.Of(err); s == sqlstate.NoTable || s == sqlstate.NoSchema {
		return nil, nil // no branch has ever written a row in this database
	}
	return names, err
}

// Remove implements [prune.Table].
func (r Rows) Remove(ctx context.Context, names []string) (removed int, err error) {
	tag, err := r.Pool.Exec(ctx, "DELETE FROM "+r.Quoted()+" WHERE xid IN (SELECT xid FROM "+r.Quoted()+" WHERE xid = ANY($1) FOR UPDATE SKIP LOCKED)", names)
	return int(tag.RowsAffected()), err
}
