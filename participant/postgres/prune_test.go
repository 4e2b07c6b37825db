package postgres

import (
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/txmgr/txmgr/participant"
	"github.com/txmgr/txmgr/participant/internal/prune/prunetest"
)

func TestPrune(t *testing.T) {
	bank := newBank(t)
	r := bank.opened(t, nil).(participant.Pruner)
	if n, err := r.Prune(t.Context(), 10, nil); n != 0 || err != nil {
		t.Errorf("where nothing was ever done: %d, %v", n, err)
	}
	bank.withMarkers(t)
	prunetest.Run(t, prunetest.Database{
		Pruner: r,
		Exec:   func(t testing.TB, statement string) { bank.exec(t, statement) },
		Names: func(t testing.TB) []string {
			rows, err := bank.pool.Query(t.Context(), "SELECT xid FROM txmgr_branch ORDER BY xid")
			check(t, err)
			names, err := pgx.CollectRows(rows, pgx.RowTo[string])
			check(t, err)
			return names
		},
		Lock: func(t testing.TB, name string) (unlock func()) {
			tx, err := bank.pool.Begin(t.Context())
			check(t, err)
			_, err = tx.Exec(t.Context(), "UPDATE txmgr_branch SET at = now() WHERE xid = $1", name)
			check(t, err)
			return func() { check(t, tx.Rollback(t.Context())) }
		},
	})
	if n, err := bank.opened(t, map[string]string{"commit_marker": "off"}).(participant.Pruner).Prune(t.Context(), 10, nil); n != 0 || err != nil {
		t.Errorf("without proof: %d, %v", n, err)
	}
}
