package markertable

import (
	"context"
	"database/sql"
	"fmt"
	"slices"
	"strings"

	"github.com/txmgr/txmgr/participant/internal/prune"
	"github.com/txmgr/txmgr/participant/mariadb/internal/errno"
	"github.com/txmgr/txmgr/participant/mariadb/internal/xa"
)

// pruneBatch is how many rows are removed in one transaction.
const pruneBatch = 200

// Rows are the rows of a table, to be pruned.
type Rows struct {
	Table
	DB *sql.DB
}

var _ prune.Table = Rows{}

// List implements [prune.Table].
func (r Rows) List(ctx context.Context, after, before string, limit int) (names []string, err error) {
	rows, err := r.DB.QueryContext(ctx, fmt.Sprintf("SELECT xid FROM %s WHERE xid > %s AND xid < %s ORDER BY xid LIMIT %d",
		r.Quoted(), xa.BytesLiteral(after), xa.BytesLiteral(before), limit))
	if errno.Of(err) == errno.NoTable {
		return nil, nil // no branch has ever used this database
	}
	if err != nil {
		return nil, err
	}
	defer func() { _ = rows.Close() }() // rows.Err reports the error
	for rows.Next() {
		var name string
		if err := rows.Scan(&name); err != nil {
			return nil, err
		}
		names = append(names, name)
	}
	return names, rows.Err()
}

// Remove implements [prune.Table].
func (r Rows) Remove(ctx context.Context, names []string) (removed int, err error) {
	for batch := range slices.Chunk(names, pruneBatch) {
		n, err := r.removeBatch(ctx, batch)
		if errno.Of(err) == errno.LockTimeout && len(batch) > 1 {
			// One at a time skips the locked row, and removes the others.
			for i := range batch {
				one, err := r.Remove(ctx, batch[i:i+1])
				if n += one; err != nil {
					return removed + n, err
				}
			}
			err = nil
		}
		if removed += n; err != nil && errno.Of(err) != errno.LockTimeout {
			return removed, err
		}
	}
	return removed, nil
}

func (r Rows) removeBatch(ctx context.Context, names []string) (int, error) {
	quoted := make([]string, len(names))
	for i, name := range names {
		quoted[i] = xa.BytesLiteral(name)
	}
	res, err := r.DB.ExecContext(ctx, "DELETE FROM "+r.Quoted()+" WHERE xid IN ("+strings.Join(quoted, ", ")+")")
	if err != nil {
		return 0, err
	}
	n, err := res.RowsAffected()
	return int(n), err
}
