package markertable

import (
	"context"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/txmgr/txmgr/participant/postgres/internal/sqlstate"
	"github.com/txmgr/txmgr/txn"
)

// prunePage is how many names List returns at most.
const prunePage = 1000

// List lists the branches with the prefix of a cluster that have a row, in the order of their
// names, beginning after the given name.
func (t Table) List(ctx context.Context, pool *pgxpool.Pool, prefix, after string) (names []string, err error) {
	end := prefix[:len(prefix)-1] + string(rune(prefix[len(prefix)-1]+1))
	rows, err := pool.Query(ctx, "SELECT xid FROM "+t.Quoted()+" WHERE xid > $1 AND xid < $2 ORDER BY xid LIMIT $3", after, end, prunePage)
	if err == nil {
		names, err = pgx.CollectRows(rows, pgx.RowTo[string])
	}
	if s := sqlstate.Of(err); s == sqlstate.NoTable || s == sqlstate.NoSchema {
		return nil, nil // no branch has ever written a row in this database
	}
	return names, err
}

// Known returns the names that are of branches: the log does not know others.
func Known(names []string) (known []string) {
	for _, name := range names {
		if _, _, _, ours := txn.ParseXID(name); ours {
			known = append(known, name)
		}
	}
	return known
}

// Remove removes rows, and skips those that are locked.
func (t Table) Remove(ctx context.Context, pool *pgxpool.Pool, names []string) (removed int, err error) {
	tag, err := pool.Exec(ctx, "DELETE FROM "+t.Quoted()+" WHERE xid IN (SELECT xid FROM "+t.Quoted()+" WHERE xid = ANY($1) FOR UPDATE SKIP LOCKED)", names)
	return int(tag.RowsAffected()), err
}
