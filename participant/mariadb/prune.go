package mariadb

import (
	"context"
	"fmt"
	"strings"

	"github.com/txmgr/txmgr/txn"
)

// The batch sizes of Prune: how many names it asks about at a time, and how many rows it removes
// in one transaction.
const (
	prunePage  = 1000
	pruneBatch = 200
)

// Prune implements [participant.Pruner]. It removes marker rows.
func (r *resourceManager) Prune(ctx context.Context, limit int, over func(context.Context, []string) ([]bool, error)) (removed int, err error) {
	ctx, fail := r.call(ctx, "tidy")
	defer fail(&err)
	if r.markers == "" {
		return 0, nil
	}
	for after := r.prefix; removed < limit; {
		names, err := r.listMarkers(ctx, after)
		if err != nil || len(names) == 0 {
			return removed, err
		}
		after = names[len(names)-1]
		answers, err := over(ctx, names)
		if err != nil {
			return removed, fmt.Errorf("ask which branches are over: %w", err)
		}
		if len(answers) != len(names) {
			return removed, fmt.Errorf("ask which branches are over: %d answers to %d questions", len(answers), len(names))
		}
		var gone []string
		for i, isOver := range answers {
			if isOver && len(gone) < limit-removed {
				gone = append(gone, names[i])
			}
		}
		n, err := r.remove(ctx, gone)
		if removed += n; err != nil {
			return removed, err
		}
	}
	return removed, nil
}

// listMarkers lists the branches of this cluster that have a row, in the order of their names,
// beginning after the given name.
func (r *resourceManager) listMarkers(ctx context.Context, after string) (names []string, err error) {
	end := r.prefix[:len(r.prefix)-1] + string(rune(r.prefix[len(r.prefix)-1]+1))
	rows, err := r.db.QueryContext(ctx, fmt.Sprintf("SELECT xid FROM %s WHERE xid > %s AND xid < %s ORDER BY xid LIMIT %d",
		r.markers.quoted(), bytesLiteral(after), bytesLiteral(end), prunePage))
	if numberOf(err) == codeNoTable {
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

// remove removes rows, and skips those that are locked.
func (r *resourceManager) remove(ctx context.Context, names []string) (removed int, err error) {
	for size := pruneBatch; len(names) > 0; names = names[min(size, len(names)):] {
		batch := names[:min(size, len(names))]
		n, err := r.removeBatch(ctx, batch)
		if numberOf(err) == codeLockTimeout && len(batch) > 1 {
			// One at a time skips the locked row, and removes the others.
			for i := range batch {
				one, err := r.remove(ctx, batch[i:i+1])
				if n += one; err != nil {
					return removed + n, err
				}
			}
			err = nil
		}
		if removed += n; err != nil && numberOf(err) != codeLockTimeout {
			return removed, err
		}
	}
	return removed, nil
}

func (r *resourceManager) removeBatch(ctx context.Context, names []string) (int, error) {
	quoted := make([]string, len(names))
	for i, name := range names {
		quoted[i] = bytesLiteral(name)
	}
	res, err := r.db.ExecContext(ctx, "DELETE FROM "+r.markers.quoted()+" WHERE xid IN ("+strings.Join(quoted, ", ")+")")
	if err != nil {
		return 0, err
	}
	n, err := res.RowsAffected()
	return int(n), err
}
