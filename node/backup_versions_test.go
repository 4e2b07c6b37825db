package node

import (
	"bytes"
	"encoding/hex"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/txmgr/txmgr/node/backup"
	"github.com/txmgr/txmgr/raftfsm"
	"github.com/txmgr/txmgr/txn"
)

// backupOf is a backup that contains a snapshot of package raftfsm's testdata.
func backupOf(t *testing.T, name string, incarnation uint64) []byte {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "raftfsm", "testdata", name+".golden"))
	if err != nil {
		t.Fatal(err)
	}
	snapshot, err := hex.DecodeString(strings.Join(strings.Fields(string(text)), ""))
	if err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	h := backup.Header{Cluster: "k7q", Incarnation: incarnation, Index: 90, Term: 2, Tick: 500, Release: "v0", Snapshot: int64(len(snapshot))}
	if _, err := backup.Write(t.Context(), &b, h, bytes.NewReader(snapshot)); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// TestBackupsOfAllVersions: a backup with a snapshot of any version is read and restored.
func TestBackupsOfAllVersions(t *testing.T) {
	for name, incarnation := range map[string]uint64{"snapshot": 0, "snapshot-2": 0, "snapshot-3": 300, "snapshot-4": 300, "snapshot-5": 300, "snapshot-6": 300, "snapshot-7": 301} {
		data := backupOf(t, name, incarnation)
		if _, c, err := backup.Inspect(bytes.NewReader(data)); err != nil || c.Transactions < 3 || len(c.Participants) != 2 {
			t.Errorf("%s: %+v, %v", name, c, err)
		}
		if b, err := backup.Restore(t.Context(), bytes.NewReader(data), filepath.Join(t.TempDir(), "data")); err != nil || b.Cluster != "k7q" {
			t.Errorf("%s: restored %+v, %v", name, b, err)
		}
	}
}

// TestBackupOfAnotherGroup is refused, not called damaged, and leaves nothing behind.
func TestBackupOfAnotherGroup(t *testing.T) {
	data, dir := backupOf(t, "snapshot-6-group", 300), filepath.Join(t.TempDir(), "data")
	_, _, inspected := backup.Inspect(bytes.NewReader(data))
	_, restored := backup.Restore(t.Context(), bytes.NewReader(data), dir)
	for _, err := range []error{inspected, restored} {
		wantErr(t, "of group 300", err, txn.ErrInvalid, "it is of group 300 of cluster k7q")
		if errors.Is(err, backup.ErrDamaged) || !errors.Is(err, raftfsm.ErrOtherGroup) {
			t.Error(err)
		}
	}
	if _, err := os.Stat(dir); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("something is left: %v", err)
	}
}
