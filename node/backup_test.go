package node

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/iotest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/txmgr/txmgr/internal/waittest"
	"github.com/txmgr/txmgr/node/backup"
	"github.com/txmgr/txmgr/node/participants"
	"github.com/txmgr/txmgr/txn"
	"github.com/txmgr/txmgr/txn/admin"
	"github.com/txmgr/txmgr/txn/machine"
)

// backedUp makes a backup of a coordinator that has state of every kind.
func backedUp(t *testing.T) (data []byte, described admin.Backup) {
	t.Helper()
	n := open(t, t.TempDir(), with(participantMap{"a": newFakeParticipant(), "b": newFakeParticipant()}))
	for i := range 30 {
		b := beginAt(t, n, time.Hour, "a", "b")
		if i%3 == 0 {
			if _, err := n.Rollback(t.Context(), b.ID, "not wanted"); err != nil {
				t.Fatal(err)
			}
			finished(t, n, b.ID)
		}
	}
	if _, _, err := n.Admin().CreateToken(t.Context(), admin.TokenRequest{Name: "app", Role: admin.RoleClient}); err != nil {
		t.Fatal(err)
	}
	var file bytes.Buffer
	described, err := n.Admin().Backup(t.Context(), &file)
	if err != nil {
		t.Fatal(err)
	}
	return file.Bytes(), described
}

func TestBackupAndInspect(t *testing.T) {
	data, described := backedUp(t)
	sum := sha256.Sum256(data)
	if described.Bytes != int64(len(data)) || described.SHA256 != hex.EncodeToString(sum[:]) || described.Index == 0 || described.Term == 0 || described.Cluster == "" || time.Since(described.Taken) > time.Minute {
		t.Errorf("%d bytes: %+v", len(data), described)
	}
	got, contents, err := backup.Inspect(iotest.HalfReader(bytes.NewReader(data)))
	if err != nil || got != described {
		t.Errorf("%+v, %v; want %+v", got, err, described)
	}
	want := backup.Contents{
		Transactions: 30, States: map[txn.State]int{txn.Active: 20, txn.RolledBack: 10}, Tokens: 1, Audit: 3, Release: Version(),
		Participants: []backup.Participant{{Name: "a", Kind: participants.EmbeddedKind, Branches: 20}, {Name: "b", Kind: participants.EmbeddedKind, Branches: 20}},
	}
	if d := cmp.Diff(want, contents); d != "" {
		t.Errorf("contents (-want +got):\n%s", d)
	}
}

// TestDamagedBackup: a backup that is truncated or changed anywhere is not restored, and the
// directory is as before.
func TestDamagedBackup(t *testing.T) {
	data, _ := backedUp(t)
	dir := filepath.Join(t.TempDir(), "made", "on", "demand")
	try := func(what string, damaged []byte) {
		t.Helper()
		if _, _, err := backup.Inspect(bytes.NewReader(damaged)); !errors.Is(err, txn.ErrInvalid) {
			t.Errorf("%s: inspected with %v", what, err)
		}
		if _, err := backup.Restore(t.Context(), bytes.NewReader(damaged), dir); !errors.Is(err, txn.ErrInvalid) {
			t.Errorf("%s: restored with %v", what, err)
		}
		if _, err := os.Stat(filepath.Dir(filepath.Dir(dir))); !errors.Is(err, os.ErrNotExist) {
			t.Fatalf("%s: something is left: %v", what, err)
		}
	}
	for _, at := range []int{0, 3, 7, 9, 20, len(data) / 2, len(data) - 33, len(data) - 1} {
		try("cut", data[:at])
		flipped := bytes.Clone(data)
		flipped[at] ^= 4
		try("flipped", flipped)
	}
	try("longer", append(bytes.Clone(data), 0))
	try("a text", []byte(strings.Repeat("hello ", 100)))
	newer := bytes.Clone(data)
	newer[7]++
	_, _, err := backup.Inspect(bytes.NewReader(newer))
	wantErr(t, "of a newer release", err, txn.ErrInvalid, "newest known here is 1")
	if errors.Is(err, backup.ErrDamaged) {
		t.Error("a newer one is not a damaged one")
	}
	gone := errors.New("the tape is torn")
	torn := func() *bytes.Reader { return bytes.NewReader(data[:len(data)/2]) }
	if _, err := backup.Restore(t.Context(), io.MultiReader(torn(), iotest.ErrReader(gone)), dir); !errors.Is(err, gone) || errors.Is(err, txn.ErrInvalid) {
		t.Error(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = backup.Restore(ctx, bytes.NewReader(data), dir)
	wantErr(t, "cancelled", err, context.Canceled)
}

// TestRestoreNeedsAnEmptyDirectory: restore needs an empty directory, and leaves any other
// unchanged.
func TestRestoreNeedsAnEmptyDirectory(t *testing.T) {
	data, _ := backedUp(t)
	full := t.TempDir()
	if err := os.WriteFile(filepath.Join(full, "log.db"), []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	_, err := backup.Restore(t.Context(), bytes.NewReader(data), full)
	wantErr(t, "not empty", err, txn.ErrConflict, "log.db")
	if left, err := os.ReadDir(full); err != nil || len(left) != 1 {
		t.Errorf("%v, %v", left, err)
	}
	empty := t.TempDir()
	if _, err := backup.Restore(t.Context(), bytes.NewReader(data[:len(data)-1]), empty); err == nil {
		t.Error("half of a backup was restored")
	}
	if left, err := os.ReadDir(empty); err != nil || len(left) != 0 {
		t.Errorf("%v, %v", left, err)
	}
	if err := os.Mkdir(filepath.Join(empty, "lost+found"), 0o700); err != nil {
		t.Fatal(err)
	}
	if _, err := backup.Restore(t.Context(), bytes.NewReader(data), empty); err != nil {
		t.Error(err)
	}
	names := func() (names []string) {
		left, _ := os.ReadDir(empty)
		for _, e := range left {
			names = append(names, e.Name())
		}
		return names
	}
	if d := cmp.Diff([]string{"log.db", "log.db.segments", "lost+found", "snapshots"}, names()); d != "" {
		t.Errorf("made (-want +got):\n%s", d)
	}
}

// TestRestoredNode: a restored node has the state, is of the next incarnation, survives restarts
// and snapshots, and can be backed up and restored in turn.
func TestRestoredNode(t *testing.T) {
	data, described := backedUp(t)
	ids := map[string]bool{}
	for incarnation := uint64(1); incarnation <= 2; incarnation++ {
		dir := t.TempDir()
		got, err := backup.Restore(t.Context(), bytes.NewReader(data), dir)
		if err != nil || got != described {
			t.Fatalf("%+v, %v; want %+v", got, err, described)
		}
		for restart := range 3 {
			n, err := tryOpen(t, dir, with(participantMap{"a": newFakeParticipant(), "b": newFakeParticipant()}), func(c *Config) { c.trailingLogs = 1 })
			if err != nil {
				t.Fatal(err)
			}
			ids[string(n.env.ID)] = true
			n.fsm.View(func(m *machine.Machine) {
				if c := m.Counts(); m.Incarnation() != incarnation || !m.RecoveryPaused() || c.Undecided != 20 || len(m.Tokens()) != 1 {
					t.Errorf("restart %d: incarnation %d, held %v, %+v, %d tokens", restart, m.Incarnation(), m.RecoveryPaused(), c, len(m.Tokens()))
				}
			})
			if restart == 1 {
				if err := n.Snapshot(); err != nil {
					t.Error(err)
				}
			}
			_, err = n.Begin(t.Context(), txn.Options{})
			wantErr(t, "begin while held", err, txn.ErrUnavailable, "restored from a backup", "resume recovery")
			if restart == 2 {
				var file bytes.Buffer
				if described, err = n.Admin().Backup(t.Context(), &file); err != nil || described.Incarnation != incarnation || described.Index <= got.Index {
					t.Errorf("%+v, %v", described, err)
				}
				data = file.Bytes()
			}
			if err := n.Close(); err != nil {
				t.Fatal(err)
			}
		}
	}
	if len(ids) != 2 {
		t.Errorf("node ids %v", ids)
	}
}

// BenchmarkBackup takes and restores a backup with 100,000 open transactions.
func BenchmarkBackup(b *testing.B) {
	n := open(b, b.TempDir(), with(participantMap{"a": newFakeParticipant()}))
	const open, callers = 100_000, 256
	var wg sync.WaitGroup
	for range callers {
		wg.Go(func() {
			for range open / callers {
				o := txn.Options{Name: "transfer", Timeout: time.Hour, Branches: []txn.Enlistment{{Participant: "a", SessionRef: "4711/1763740800"}}}
				if _, err := n.Begin(context.Background(), o); err != nil {
					b.Error(err)
				}
			}
		})
	}
	wg.Wait()
	var file bytes.Buffer
	for b.Loop() {
		file.Reset()
		start := time.Now()
		if _, err := n.Admin().Backup(b.Context(), &file); err != nil {
			b.Fatal(err)
		}
		taken := time.Since(start)
		if _, _, err := backup.Inspect(bytes.NewReader(file.Bytes())); err != nil {
			b.Fatal(err)
		}
		inspected := time.Since(start)
		dir := b.TempDir()
		if _, err := backup.Restore(b.Context(), bytes.NewReader(file.Bytes()), dir); err != nil {
			b.Fatal(err)
		}
		b.ReportMetric(float64(taken.Milliseconds()), "ms/backup")
		b.ReportMetric(float64((inspected - taken).Milliseconds()), "ms/inspection")
		b.ReportMetric(float64((time.Since(start) - inspected).Milliseconds()), "ms/restore")
	}
	b.ReportMetric(float64(file.Len())/open, "B/tx")
}

// TestBackupAfterAChangeOfMembers: raft takes no snapshot as long as no entry follows a change
// of the membership. In an idle cluster that may be for ever.
func TestBackupAfterAChangeOfMembers(t *testing.T) {
	addr := freePorts(t, 2)
	l := bootstrapped(t, addr[0])
	openMember(t, t.TempDir(), Cluster{Listen: addr[1], Join: addr[:1]})
	waittest.Until(t, "the second node votes", func() bool { return l.cluster.Voters() == 2 })
	b, err := l.Admin().Backup(t.Context(), io.Discard)
	if err != nil || b.Cluster != l.clusterID() {
		t.Errorf("%+v, %v", b, err)
	}
}
