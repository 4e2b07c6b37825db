package postgres

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5"

	"github.com/txmgr/txmgr/participant"
	"github.com/txmgr/txmgr/txn"
)

// TestPrune removes the rows of ended branches of this cluster, oldest first, and never waits.
func TestPrune(t *testing.T) {
	bank := newBank(t)
	r := bank.opened(t, nil).(participant.Pruner)
	if n, err := r.Prune(t.Context(), 10, nil); n != 0 || err != nil {
		t.Errorf("where nothing was ever done: %d, %v", n, err)
	}
	bank.withMarkers(t)
	var names []string
	rows := "INSERT INTO txmgr_branch (xid, kind) VALUES "
	for i := range 2500 {
		names = append(names, newBranch().XID)
		rows += fmt.Sprintf("('%s', %d), ", names[i], 1+i%2)
	}
	slices.Sort(names)
	foreign := []string{"txm_testx_01ej3px0270400000000000000_b1", "txm_tes_01ej3px0270400000000000000_b1", "txm_test_own", "abc", "zzz"}
	for i, name := range foreign {
		rows += fmt.Sprintf("('%s', 1)%s", name, []string{", ", ""}[i/(len(foreign)-1)])
	}
	bank.exec(t, rows)
	left := func() (left []string) {
		rows, err := bank.pool.Query(t.Context(), "SELECT xid FROM txmgr_branch ORDER BY xid")
		check(t, err)
		left, err = pgx.CollectRows(rows, pgx.RowTo[string])
		check(t, err)
		return slices.DeleteFunc(left, func(name string) bool { return slices.Contains(foreign, name) })
	}
	// Every tenth branch has not ended, and one row is locked.
	locked, err := bank.pool.Begin(t.Context())
	check(t, err)
	_, err = locked.Exec(t.Context(), "UPDATE txmgr_branch SET at = now() WHERE xid = $1", names[5])
	check(t, err)
	asked := 0
	over := func(_ context.Context, xids []string) (over []bool, _ error) {
		if asked += len(xids); len(xids) > 1000 {
			t.Errorf("asked about %d at once", len(xids))
		}
		for _, xid := range xids {
			if _, _, _, ours := txn.ParseXID(xid); !ours {
				t.Errorf("asked about %s", xid)
			}
			over = append(over, slices.Index(names, xid)%10 != 0)
		}
		return over, nil
	}
	begun := time.Now()
	if n, err := r.Prune(t.Context(), 17, over); n != 17 || err != nil {
		t.Errorf("removed %d, %v", n, err)
	}
	var want []string
	for i, name := range names {
		if i%10 == 0 || i > 20 || i == 5 {
			want = append(want, name)
		}
	}
	// One of the first rows was locked, so the next one was removed instead, or left.
	if got := left(); len(got) != len(names)-17 || got[0] != want[0] || got[1] != want[1] {
		t.Errorf("%d are left, beginning with %v", len(got), got[:3])
	}
	n, err := r.Prune(t.Context(), 1<<30, over)
	check(t, err)
	if d := time.Since(begun); d > 20*time.Second {
		t.Errorf("took %v", d)
	}
	check(t, locked.Rollback(t.Context()))
	want = nil
	for i, name := range names {
		if i%10 == 0 || i == 5 {
			want = append(want, name)
		}
	}
	if diff := cmp.Diff(want, left()); diff != "" || n != 2500-250-1-17 {
		t.Errorf("removed %d; left:\n%s", n, diff)
	}
	var others int
	check(t, bank.pool.QueryRow(t.Context(), "SELECT COUNT(*) FROM txmgr_branch").Scan(&others))
	if others != len(want)+len(foreign) {
		t.Errorf("%d rows are left, want %d and %d of others", others, len(want), len(foreign))
	}

	boom := errors.New("boom")
	if _, err := r.Prune(t.Context(), 10, func(context.Context, []string) ([]bool, error) { return nil, boom }); !errors.Is(err, boom) {
		t.Errorf("got %v", err)
	}
	if _, err := r.Prune(t.Context(), 10, func(context.Context, []string) ([]bool, error) { return nil, nil }); err == nil {
		t.Error("fewer answers than questions are taken")
	}
	if n, err := bank.opened(t, map[string]string{"commit_marker": "off"}).(participant.Pruner).Prune(t.Context(), 10, nil); n != 0 || err != nil {
		t.Errorf("without proof: %d, %v", n, err)
	}
}
