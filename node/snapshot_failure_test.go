package node

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/txmgr/txmgr/txn"
)

// TestSnapshotsThatFail: they are retried once a second, however much is appended, with one warning
// a minute; the first success ends that.
func TestSnapshotsThatFail(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var f logCapture
		dir := t.TempDir()
		n := open(t, dir, slow, captureLog(&f), func(c *Config) { c.SnapshotBytes = 16 << 10 })
		snapshots, aside := filepath.Join(dir, "snapshots"), filepath.Join(dir, "aside")
		if err := os.Rename(snapshots, aside); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(snapshots, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		for range 150 {
			b := begin(t, n, time.Hour)
			if _, err := n.Rollback(t.Context(), b.ID, strings.Repeat("r", txn.MaxReason)); err != nil {
				t.Fatal(err)
			}
			pass(time.Second)
		}
		if got := len(f.lines(t, "snapshot failed; the log stays as it is")); got != 3 {
			t.Errorf("%d warnings in two and a half minutes; want 3", got)
		}
		pass(time.Second / 2) // not while a try makes the directory
		if err := os.Remove(snapshots); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(aside, snapshots); err != nil {
			t.Fatal(err)
		}
		pass(2 * time.Second)
		if n.snapshots.Due() {
			t.Error("no snapshot was taken afterwards")
		}
	})
}
