package prune

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/txmgr/txmgr/txn"
)

// fakeTable is a marker table in memory.
type fakeTable struct {
	rows   []string // in order
	locked []string
	listed int // how many calls
	fails  error
	after  int // how many rows Remove removes before it fails
}

func (f *fakeTable) List(_ context.Context, after, before string, limit int) (page []string, _ error) {
	f.listed++
	for _, name := range f.rows {
		if name > after && name < before && len(page) < limit {
			page = append(page, name)
		}
	}
	return page, nil
}

func (f *fakeTable) Remove(_ context.Context, names []string) (removed int, err error) {
	if len(names) == 0 {
		return 0, errors.New("a statement for nothing")
	}
	for _, name := range names {
		if f.fails != nil && removed == f.after {
			return removed, f.fails
		}
		if i := slices.Index(f.rows, name); !slices.Contains(f.locked, name) {
			f.rows = slices.Delete(f.rows, i, i+1)
			removed++
		}
	}
	return removed, nil
}

// xids returns the names of n branches of a cluster, in order.
func xids(cluster string, n int) (names []string) {
	for i := range n {
		names = append(names, txn.XID(cluster, txn.NewID(time.UnixMilli(1600000000000+int64(i)), [9]byte{1}), 1))
	}
	return names
}

func tableOf(names ...[]string) *fakeTable {
	return &fakeTable{rows: slices.Sorted(slices.Values(slices.Concat(names...)))}
}

// all says that every branch is over.
func all(_ context.Context, names []string) ([]bool, error) {
	return slices.Repeat([]bool{true}, len(names)), nil
}

const everything = 1 << 30

func TestRows(t *testing.T) {
	prefix := txn.ClusterPrefix("test")
	own := xids("test", 2500)
	var unknown []string // more than a page of names that cannot be parsed, before and between the others
	for i := range pageSize + 1 {
		unknown = append(unknown, fmt.Sprintf("%s!%04d", prefix, i), fmt.Sprintf("%s~%04d", prefix, i), fmt.Sprintf("%sx%04d", own[1200], i))
	}
	foreign := slices.Concat(xids("testx", 3), xids("tes", 3), []string{"", "abc", "zzz", prefix})
	half := func(_ context.Context, names []string) (over []bool, _ error) {
		for _, name := range names {
			over = append(over, slices.Index(own, name)%2 == 0)
		}
		return over, nil
	}
	var odd []string
	for i, name := range own {
		if i%2 == 1 {
			odd = append(odd, name)
		}
	}
	for name, c := range map[string]struct {
		table *fakeTable
		limit int
		over  Over
		want  []string // of own
	}{
		"nothing there":  {tableOf(), everything, nil, nil},
		"all":            {tableOf(own), everything, all, nil},
		"all of a page":  {tableOf(own[:pageSize]), everything, all, nil},
		"those over":     {tableOf(own), everything, half, odd},
		"the first ones": {tableOf(own), 17, all, own[17:]},
		"over pages":     {tableOf(own), 1700, all, own[1700:]},
		"none":           {tableOf(own), 0, nil, own},
		"none over":      {tableOf(own), everything, func(_ context.Context, names []string) ([]bool, error) { return make([]bool, len(names)), nil }, own},
		"locked":         {&fakeTable{rows: slices.Clone(own), locked: own[5:7]}, everything, all, own[5:7]},
		"among others":   {tableOf(own, unknown, foreign), everything, all, nil},
		"only others":    {tableOf(unknown, foreign), everything, nil, nil},
	} {
		t.Run(name, func(t *testing.T) {
			before := len(c.table.rows)
			n, err := Rows(t.Context(), c.table, prefix, c.limit, func(ctx context.Context, names []string) ([]bool, error) {
				if len(names) == 0 || len(names) > 1000 {
					t.Errorf("asked about %d branches at once", len(names))
				}
				for _, name := range names {
					if cluster, _, _, ours := txn.ParseXID(name); !ours || cluster != "test" {
						t.Errorf("asked about %s", name)
					}
				}
				return c.over(ctx, names)
			})
			if err != nil || n != before-len(c.table.rows) {
				t.Errorf("removed %d of %d, %v; %d are left", n, before, err, len(c.table.rows))
			}
			left := slices.DeleteFunc(slices.Clone(c.table.rows), func(name string) bool { return slices.Contains(unknown, name) || slices.Contains(foreign, name) })
			if diff := cmp.Diff(c.want, left); diff != "" && len(c.want)+len(left) > 0 {
				t.Errorf("left:\n%s", diff)
			}
			if others := len(c.table.rows) - len(left); strings.HasSuffix(name, "others") && others != len(unknown)+len(foreign) {
				t.Errorf("%d others are left, want %d", others, len(unknown)+len(foreign))
			}
		})
	}
}

func TestRowsFails(t *testing.T) {
	boom := errors.New("boom")
	for name, c := range map[string]struct {
		table   *fakeTable
		over    Over
		removed int
		want    string
	}{
		"the log does not answer": {tableOf(xids("test", 3)), func(context.Context, []string) ([]bool, error) { return nil, boom }, 0, "ask which branches have finished: boom"},
		"an answer is missing":    {tableOf(xids("test", 3)), func(context.Context, []string) ([]bool, error) { return []bool{true, true}, nil }, 0, "2 answers to 3 questions"},
		"the table fails":         {&fakeTable{rows: xids("test", 3), fails: boom, after: 2}, all, 2, "boom"},
	} {
		n, err := Rows(t.Context(), c.table, txn.ClusterPrefix("test"), everything, c.over)
		if n != c.removed || err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %d, %v; want %d, %s", name, n, err, c.removed, c.want)
		}
		if c.table.listed != 1 {
			t.Errorf("%s: it goes on, with %d pages", name, c.table.listed)
		}
	}
}
