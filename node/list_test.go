package node

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/txmgr/txmgr/node/query"
	"github.com/txmgr/txmgr/txn"
	"github.com/txmgr/txmgr/txn/admin"
)

// listed returns the ids of a list.
func listed(t *testing.T, n *Node, f admin.Filter) (ids []txn.ID) {
	t.Helper()
	found, err := n.List(t.Context(), f)
	if err != nil {
		t.Fatal(err)
	}
	for _, i := range found {
		ids = append(ids, i.ID)
	}
	return ids
}

// atOnce calls do with 0 to times-1, on 64 goroutines.
func atOnce(times int, do func(int)) {
	var all sync.WaitGroup
	for k := range 64 {
		all.Go(func() {
			for i := k; i < times; i += 64 {
				do(i)
			}
		})
	}
	all.Wait()
}

// TestListPageByPage: pages list open and finished transactions from the newest to the oldest,
// each once.
func TestListPageByPage(t *testing.T) {
	n := open(t, t.TempDir())
	var all []txn.ID
	for i := range 25 {
		b, err := n.Begin(t.Context(), txn.Options{ID: txn.NewID(time.UnixMilli(int64(1_700_000_000_000+(i*7)%25)), [9]byte{byte(i)}), Timeout: time.Hour})
		if err != nil {
			t.Fatal(err)
		}
		if all = append(all, b.ID); i%3 != 0 {
			if _, err := n.Commit(t.Context(), b.ID, txn.CommitRequest{}); err != nil {
				t.Fatal(err)
			}
		}
	}
	slices.SortFunc(all, txn.ID.Compare)
	var got []txn.ID
	f := admin.Filter{Limit: 4}
	for {
		page := listed(t, n, f)
		if len(page) == 0 {
			break
		}
		if !slices.IsSortedFunc(page, txn.ID.Compare) || len(page) > 4 {
			t.Errorf("a page: %v", page)
		}
		got = append(page, got...)
		f.Before = page[0]
	}
	if !slices.Equal(got, all) {
		t.Errorf("page by page %d: %v; want %d: %v", len(got), got, len(all), all)
	}
	gone, leave := context.WithCancelCause(t.Context())
	leave(errors.New("gone"))
	if _, err := n.List(txn.AllowStale(gone), admin.Filter{}); err == nil {
		t.Error("a list for a caller who has gone goes on")
	}
}

// TestListOfWhatExpires: a filter by expiry returns the same from the survival index, and from a
// scan if too many transactions expire.
func TestListOfWhatExpires(t *testing.T) {
	n := open(t, t.TempDir(), with(participantMap{"bank": newFakeParticipant()}))
	const many = query.MaxExpiringScan + 100
	ids := make([]txn.ID, many)
	atOnce(many, func(i int) {
		timeout := time.Hour
		if i >= query.MaxExpiringScan/2 {
			timeout = 2 * time.Hour
		}
		ids[i] = txn.NewID(time.UnixMilli(1_700_000_000_000+int64(i)), [9]byte{1})
		if _, err := n.Begin(t.Context(), txn.Options{ID: ids[i], Timeout: timeout}); err != nil {
			t.Error(err)
		}
	})
	alone := beginAt(t, n, time.Minute, "bank")
	if _, err := n.Delegate(t.Context(), alone.ID, 1); err != nil {
		t.Fatal(err)
	}
	if _, err := n.Rollback(t.Context(), ids[1], "no"); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		f    admin.Filter
		want []txn.ID
	}{
		"none":                {admin.Filter{ExpiresWithin: time.Minute}, nil},
		"from the index":      {admin.Filter{ExpiresWithin: time.Hour, Limit: 3}, ids[query.MaxExpiringScan/2-3 : query.MaxExpiringScan/2]},
		"the first":           {admin.Filter{ExpiresWithin: time.Hour, Before: ids[3]}, []txn.ID{ids[0], ids[2]}},
		"too many for a look": {admin.Filter{ExpiresWithin: 2 * time.Hour, Limit: 3}, ids[many-3:]},
		"the first of many":   {admin.Filter{ExpiresWithin: 2 * time.Hour, Before: ids[3]}, []txn.ID{ids[0], ids[2]}},
	} {
		if got := listed(t, n, c.f); !slices.Equal(got, c.want) {
			t.Errorf("%s: %v; want %v", name, got, c.want)
		}
	}
}

// TestGroupsPageByPage: a result has no more deadline groups than the limit, and the tick at which
// the next page begins.
func TestGroupsPageByPage(t *testing.T) {
	n := open(t, t.TempDir())
	const all = admin.DefaultDeadlineGroups + 50
	atOnce(all, func(i int) {
		if _, err := n.Begin(t.Context(), txn.Options{Timeout: time.Hour + time.Duration(i)*time.Minute/2}); err != nil {
			t.Error(err)
		}
	})
	first, err := n.Admin().DeadlineGroups(t.Context(), admin.DeadlineGroupRange{})
	if err != nil || len(first.Groups) != admin.DefaultDeadlineGroups || first.Next <= first.Groups[admin.DefaultDeadlineGroups-1].ExpiryTick {
		t.Fatalf("%d groups, next %d, %v", len(first.Groups), first.Next, err)
	}
	var ticks []uint64
	for r, more := (admin.DeadlineGroupRange{Limit: 100}), true; more; more = r.From != 0 {
		g, err := n.Admin().DeadlineGroups(t.Context(), r)
		if err != nil || len(g.Groups) > 100 {
			t.Fatalf("%d groups, %v", len(g.Groups), err)
		}
		for _, x := range g.Groups {
			ticks = append(ticks, x.ExpiryTick)
		}
		r.From = g.Next
	}
	if len(ticks) != all || !slices.IsSorted(ticks) {
		t.Errorf("%d groups page by page, want %d", len(ticks), all)
	}
}
