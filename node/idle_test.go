package node

import (
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/txmgr/txmgr/internal/waittest"
	"github.com/txmgr/txmgr/txn"
)

// TestFreshIDAfterIdleness: there was no call for longer than the retention time. An id that a
// caller makes now, without a mark, counts as new, although the log's tick is old.
func TestFreshIDAfterIdleness(t *testing.T) {
	var ahead atomic.Int64
	now := func() time.Time { return time.Now().Add(time.Duration(ahead.Load())) }
	n := open(t, t.TempDir(), func(c *Config) { c.Interval, c.monotonic, c.wall = 100*time.Millisecond, now, now })
	ahead.Store(int64(2 * time.Hour))
	if _, err := n.Begin(t.Context(), txn.Options{ID: txn.NewID(now(), [9]byte{1})}); err != nil {
		t.Errorf("the first begin with an id that was just made: %v", err)
	}
}

// TestSnapshotDueAtTheStart: a node stopped before it had taken the snapshot that its log made
// due. After its restart, nothing is applied yet when it checks; the snapshot is taken with the
// first entry, and not only after another SnapshotBytes of log.
func TestSnapshotDueAtTheStart(t *testing.T) {
	dir := t.TempDir()
	write := func(n *Node, count int) {
		for range count {
			if _, err := n.Begin(t.Context(), txn.Options{Name: strings.Repeat("x", 60), Timeout: time.Hour}); err != nil {
				t.Fatal(err)
			}
		}
	}
	n, err := tryOpen(t, dir, func(c *Config) { c.SnapshotBytes = 1 << 40 })
	if err != nil {
		t.Fatal(err)
	}
	write(n, 10)
	if err := n.Snapshot(); err != nil {
		t.Fatal(err)
	}
	write(n, 400)
	if err := n.Close(); err != nil {
		t.Fatal(err)
	}
	n = open(t, dir, func(c *Config) { c.SnapshotBytes = 40_000 })
	write(n, 1)
	waittest.Until(t, "the snapshot that was due is taken", func() bool {
		snaps, err := n.env.Snapshots.List()
		return err == nil && len(snaps) > 0 && snaps[0].Index > 400
	})
}
