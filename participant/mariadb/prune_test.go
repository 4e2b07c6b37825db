package mariadb

import (
	"testing"

	"github.com/txmgr/txmgr/participant/internal/prune/prunetest"
)

func TestPrune(t *testing.T) {
	bank := newBank(t)
	r := bank.opened(t, nil)
	if n, err := r.Prune(t.Context(), 10, nil); n != 0 || err != nil {
		t.Errorf("where nothing was ever done: %d, %v", n, err)
	}
	check(t, r.Check(t.Context()))
	prunetest.Run(t, prunetest.Database{
		Pruner: r,
		Exec:   func(t testing.TB, statement string) { bank.exec(t, statement) },
		Names: func(t testing.TB) (names []string) {
			rows, err := bank.pool.QueryContext(t.Context(), "SELECT xid FROM txmgr_branch ORDER BY xid")
			check(t, err)
			for rows.Next() {
				var name string
				check(t, rows.Scan(&name))
				names = append(names, name)
			}
			check(t, rows.Close())
			return names
		},
		Lock: func(t testing.TB, name string) (unlock func()) {
			tx, err := bank.pool.BeginTx(t.Context(), nil)
			check(t, err)
			_, err = tx.ExecContext(t.Context(), "UPDATE txmgr_branch SET at = NOW() WHERE xid = ?", name)
			check(t, err)
			return func() { check(t, tx.Rollback()) }
		},
	})
	if n, err := bank.opened(t, map[string]string{"commit_marker": "off"}).Prune(t.Context(), 10, nil); n != 0 || err != nil {
		t.Errorf("without proof: %d, %v", n, err)
	}
}
