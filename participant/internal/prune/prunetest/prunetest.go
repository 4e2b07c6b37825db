// Package prunetest tries on a real database that a participant's marker rows are pruned.
package prunetest

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/txmgr/txmgr/participant"
	"github.com/txmgr/txmgr/txn"
)

// Database is a database with an empty marker table of the default name, and its participant in
// the cluster "test".
type Database struct {
	Pruner participant.Pruner
	// Exec runs a statement.
	Exec func(t testing.TB, statement string)
	// Names returns the names of all rows, in the order of their bytes.
	Names func(t testing.TB) []string
	// Lock has another transaction lock a row, until unlock is called.
	Lock func(t testing.TB, name string) (unlock func())
}

// slow is longer than it takes on a busy machine, and shorter than a wait for a lock at every row.
const slow = 20 * time.Second

// Run checks that the rows of finished branches are removed, oldest first, without waiting, and that
// all others stay, also where more than a page of them comes first.
func Run(t *testing.T, d Database) {
	var names []string
	for i := range 2500 {
		names = append(names, txn.XID("test", txn.NewID(time.UnixMilli(1600000000000+int64(i)), [9]byte{1}), 1))
	}
	others := []string{"txm_testx_01ej3px0270400000000000000_b1", "txm_tes_01ej3px0270400000000000000_b1", "txm_test_own", "abc", "zzz"}
	for i := range 1500 {
		others = append(others, fmt.Sprintf("txm_test_!%04d", i))
	}
	for rows := range slices.Chunk(slices.Concat(names, others), 1000) {
		values := make([]string, len(rows))
		for i, name := range rows {
			values[i] = fmt.Sprintf("('%s', %d)", name, 1+i%2)
		}
		d.Exec(t, "INSERT INTO txmgr_branch (xid, kind) VALUES "+strings.Join(values, ", "))
	}
	wantLeft := func(want []string) {
		t.Helper()
		want = slices.Sorted(slices.Values(slices.Concat(want, others)))
		if diff := cmp.Diff(want, d.Names(t)); diff != "" {
			t.Errorf("left:\n%s", diff)
		}
	}
	// Every tenth branch has not finished, and one row is locked.
	finished := func(i int) bool { return i%10 != 0 }
	const locked = 5
	unlock := d.Lock(t, names[locked])
	over := func(_ context.Context, xids []string) (over []bool, _ error) {
		for _, xid := range xids {
			over = append(over, finished(slices.Index(names, xid)))
		}
		return over, nil
	}
	left := func(removed func(i int) bool) (left []string) {
		for i, name := range names {
			if !removed(i) {
				left = append(left, name)
			}
		}
		return left
	}
	begun := time.Now()
	prune := func(limit, want int) {
		t.Helper()
		if n, err := d.Pruner.Prune(t.Context(), limit, over); n != want || err != nil {
			t.Errorf("removed %d, %v; want %d", n, err, want)
		}
	}
	const first = 9 // the oldest; one of a later page takes the place of the locked one
	prune(first, first)
	oldest := slices.DeleteFunc(d.Names(t), func(name string) bool { return !slices.Contains(names[:first+1], name) })
	if diff := cmp.Diff([]string{names[0], names[locked]}, oldest); diff != "" {
		t.Errorf("of the oldest are left:\n%s", diff)
	}
	prune(1<<30, 2500-250-1-first)
	if d := time.Since(begun); d > slow {
		t.Errorf("took %v: it waits for locks", d)
	}
	wantLeft(left(func(i int) bool { return finished(i) && i != locked }))
	unlock()
	prune(1<<30, 1)
	wantLeft(left(finished))
}
