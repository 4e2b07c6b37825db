package markertable

import (
	"context"
	"database/sql"
	"fmt"
	"strings"

	"github.com/txmgr/txmgr/participant/mariadb/internal/errno"
	"github.com/txmgr/txmgr/participant/mariadb/internal/xa"
	"github.com/txmgr/txmgr/txn"
)

// How many names List returns at most, and how many rows Remove removes in one transaction.
const (
	prunePage  = 1000
	pruneBatch = 200
)

// List lists the branches with the prefix of a cluster that have a row, in the order of their
// names, beginning after the given name.
func (t Table) List(ctx context.Context, db *sql.DB, prefix, after string) (names []string, err error) {
	end := prefix[:len(prefix)-1] + string(rune(prefix[len(prefix)-1]+1))
	rows, err := db.QueryContext(ctx, fmt.Sprintf("SELECT xid FROM %s WHERE xid > %s AND xid < %s ORDER BY xid LIMIT %d",
		t.Quoted(), xa.BytesLiteral(after), xa.BytesLiteral(end), prunePage))
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
		if _, _, _, ours := txn.ParseXID(name); ours { // the log does not know other names
			names = append(names, name)
		}
	}
	return names, rows.Err()
}

// Remove removes rows, and skips those that are locked.
func (t Table) Remove(ctx context.Context, db *sql.DB, names []string) (removed int, err error) {
	for size := pruneBatch; len(names) > 0; names = names[min(size, len(names)):] {
		batch := names[:min(size, len(names))]
		n, err := t.removeBatch(ctx, db, batch)
		if errno.Of(err) == errno.LockTimeout && len(batch) > 1 {
			// One at a time skips the locked row, and removes the others.
			for i := range batch {
				one, err := t.Remove(ctx, db, batch[i:i+1])
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

func (t Table) removeBatch(ctx context.Context, db *sql.DB, names []string) (int, error) {
	quoted := make([]string, len(names))
	for i, name := range names {
		quoted[i] = xa.BytesLiteral(name)
	}
	res, err := db.ExecContext(ctx, "DELETE FROM "+t.Quoted()+" WHERE xid IN ("+strings.Join(quoted, ", ")+")")
	if err != nil {
		return 0, err
	}
	n, err := res.RowsAffected()
	return int(n), err
}
