package node

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/txmgr/txmgr/node/storage"
	"github.com/txmgr/txmgr/txn"
)

// history creates a data directory whose log has been truncated up to its snapshots,
// and returns the snapshots, the newest last.
func history(t *testing.T) (dir string, snapshots []string) {
	t.Helper()
	dir = t.TempDir()
	n, err := tryOpen(t, dir, func(c *Config) { c.trailingLogs = 1 })
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		for range 20 {
			if _, err := n.Begin(t.Context(), txn.Options{Timeout: time.Hour}); err != nil {
				t.Fatal(err)
			}
		}
		if err := n.Snapshot(); err != nil {
			t.Fatal(err)
		}
	}
	if err := n.Close(); err != nil {
		t.Fatal(err)
	}
	snapshots, err = filepath.Glob(filepath.Join(dir, "snapshots", "*", "state.bin"))
	if err != nil || len(snapshots) != 2 {
		t.Fatalf("snapshots %v, %v", snapshots, err)
	}
	return dir, snapshots
}

func flip(t *testing.T, file string) {
	t.Helper()
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	b[len(b)/2] ^= 4
	if err := os.WriteFile(file, b, 0o600); err != nil {
		t.Fatal(err)
	}
}

// olderTerm puts the term of an earlier time into the log.
func olderTerm(t *testing.T, dir string, _ []string) {
	t.Helper()
	s, err := storage.Open(dir, 0, func(err error) { t.Error(err) }, hclog.NewNullLogger())
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(s.Log.SetUint64(storage.CurrentTermKey, 1), s.Log.Close()); err != nil {
		t.Fatal(err)
	}
}

// TestDamagedDataDirectory: every damage that the log and the snapshots can show
// of each other is an error that names the file, and starts nothing.
func TestDamagedDataDirectory(t *testing.T) {
	for name, c := range map[string]struct {
		damage func(t *testing.T, dir string, snapshots []string)
		names  string
	}{
		"bit flipped in the newest snapshot": {func(t *testing.T, _ string, s []string) { flip(t, s[1]) }, "snapshots"},
		"bit flipped in all snapshots":       {func(t *testing.T, _ string, s []string) { flip(t, s[0]); flip(t, s[1]) }, "snapshots"},
		"newest snapshot deleted":            {func(t *testing.T, _ string, s []string) { remove(t, filepath.Dir(s[1])) }, "snapshots reach"},
		"snapshots deleted":                  {func(t *testing.T, dir string, _ []string) { remove(t, filepath.Join(dir, "snapshots")) }, "snapshots"},
		"snapshot without its description":   {func(t *testing.T, _ string, s []string) { remove(t, filepath.Join(filepath.Dir(s[1]), "meta.json")) }, "snapshots reach"},
		"older term and vote":                {olderTerm, "of term"},
		"log deleted":                        {func(t *testing.T, dir string, _ []string) { remove(t, filepath.Join(dir, "log.db")) }, "log.db"},
	} {
		t.Run(name, func(t *testing.T) {
			dir, snapshots := history(t)
			c.damage(t, dir, snapshots)
			n, err := tryOpen(t, dir)
			if !errors.Is(err, ErrDamaged) || !strings.Contains(err.Error(), c.names) {
				t.Errorf("opened with %v; want %v that names %q", err, ErrDamaged, c.names)
			}
			if err == nil {
				_ = n.Close()
			}
		})
	}
	dir, _ := history(t)
	n := open(t, dir)
	if s, err := n.Admin().Status(t.Context()); err != nil || s.Undecided != 40 {
		t.Errorf("undamaged: %d open, %v; want 40", s.Undecided, err)
	}
}

// TestOlderSnapshotIsEnough: as long as the log reaches back to it.
func TestOlderSnapshotIsEnough(t *testing.T) {
	dir := t.TempDir()
	n, err := tryOpen(t, dir)
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if _, err := n.Begin(t.Context(), txn.Options{Timeout: time.Hour}); err != nil {
			t.Fatal(err)
		}
		if err := n.Snapshot(); err != nil {
			t.Fatal(err)
		}
	}
	if err := n.Close(); err != nil {
		t.Fatal(err)
	}
	snapshots, _ := filepath.Glob(filepath.Join(dir, "snapshots", "*", "state.bin"))
	flip(t, snapshots[1])
	n = open(t, dir)
	if s, err := n.Admin().Status(t.Context()); err != nil || s.Undecided != 2 {
		t.Errorf("%d open, %v; want 2", s.Undecided, err)
	}
}

func remove(t *testing.T, path string) {
	t.Helper()
	if err := os.RemoveAll(path); err != nil {
		t.Fatal(err)
	}
}
