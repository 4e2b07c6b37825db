package logstore

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/hashicorp/raft"
	"go.uber.org/goleak"
)

// TestMain runs the test binary as a child process of itself where a test needs one to kill, starve or trace.
func TestMain(m *testing.M) {
	if mode := os.Getenv(childMode); mode != "" {
		os.Exit(child(mode, os.Getenv(childPath)))
	}
	goleak.VerifyTestMain(m)
}

func newPath(t testing.TB) string { return filepath.Join(t.TempDir(), "raft.db") }

// open opens a store that must open, closes it at the end, and checks then that it can be opened again.
func open(t testing.TB, path string, opts Options) *Store {
	t.Helper()
	s, err := Open(path, opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if s.failStop.failure() != nil {
			s.Close()
			return
		}
		closeStore(t, s)
		again, err := Open(path, opts)
		if err != nil {
			t.Errorf("after the test: %v", err)
			return
		}
		closeStore(t, again)
	})
	return s
}

func closeStore(t testing.TB, s *Store) {
	t.Helper()
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
}

// entry is a log entry whose content distinguishes it from every other.
func entry(index, term uint64, size int) *raft.Log {
	data := make([]byte, size)
	for i := range data {
		data[i] = byte(index*7 + term*13 + uint64(i)*31)
	}
	l := &raft.Log{
		Index: index, Term: term, Type: raft.LogType(index % 6), Data: data,
		AppendedAt: time.Unix(1_700_000_000+int64(index), int64(term)).UTC(),
	}
	if index%5 == 0 {
		l.Extensions = []byte(fmt.Sprintf("ext %d", index))
	}
	return l
}

func entries(from, to, term uint64, size int) (logs []*raft.Log) {
	for i := from; i <= to; i++ {
		logs = append(logs, entry(i, term, size))
	}
	return logs
}

func sameEntry(a, b *raft.Log) bool {
	return a.Index == b.Index && a.Term == b.Term && a.Type == b.Type && a.AppendedAt.Equal(b.AppendedAt) &&
		bytes.Equal(a.Data, b.Data) && bytes.Equal(a.Extensions, b.Extensions)
}

func store(t testing.TB, s *Store, logs ...*raft.Log) {
	t.Helper()
	if err := s.StoreLogs(logs); err != nil {
		t.Fatal(err)
	}
}

// wantRange checks the bounds of the log.
func wantRange(t testing.TB, s *Store, first, last uint64) {
	t.Helper()
	gotFirst, err1 := s.FirstIndex()
	gotLast, err2 := s.LastIndex()
	if err1 != nil || err2 != nil || gotFirst != first || gotLast != last {
		t.Fatalf("log is %d..%d (%v, %v), want %d..%d", gotFirst, gotLast, err1, err2, first, last)
	}
}

// wantEntries checks that exactly these entries are stored between the bounds, and nothing just outside of
// them.
func wantEntries(t testing.TB, s *Store, want map[uint64]*raft.Log) {
	t.Helper()
	first, _ := s.FirstIndex()
	last, _ := s.LastIndex()
	n := 0
	for i := max(first, 1) - 1; i <= last+1; i++ {
		var got raft.Log
		err := s.GetLog(i, &got)
		w := want[i]
		switch {
		case w == nil && err == raft.ErrLogNotFound: //nolint:errorlint // raft compares it like this
		case w == nil:
			t.Fatalf("entry %d: %v, want raft.ErrLogNotFound itself", i, err)
		case err != nil:
			t.Fatalf("entry %d: %v", i, err)
		case !sameEntry(w, &got):
			t.Fatalf("entry %d differs (-want +got):\n%s", i, cmp.Diff(w, &got))
		default:
			n++
		}
	}
	if n != len(want) {
		t.Fatalf("%d entries in %d..%d, want %d", n, first, last, len(want))
	}
}

func logMap(logs ...*raft.Log) map[uint64]*raft.Log {
	m := map[uint64]*raft.Log{}
	for _, l := range logs {
		m[l.Index] = l
	}
	return m
}

// wantClear checks that err is one of the errors that Open may give for a file that is not right.
func wantClear(t testing.TB, err error, path string) {
	t.Helper()
	if !errors.Is(err, ErrCorrupt) && !errors.Is(err, ErrNotLogStore) && !errors.Is(err, ErrVersion) {
		t.Fatalf("unclear error: %v", err)
	}
	if !bytes.Contains([]byte(err.Error()), []byte(path)) {
		t.Fatalf("the error does not name %s: %v", path, err)
	}
}
