package logstore

import (
	"bytes"
	"errors"
	"io"
	"os"
	"strings"
	"testing"

	"github.com/hashicorp/raft"
)

// Damage that comes while the store is open is found by the read that meets it, and stops the store.
func TestCorruptionWhileOpen(t *testing.T) {
	path := newPath(t)
	var calls []error
	s := open(t, path, Options{OnFailure: func(err error) { calls = append(calls, err) }})
	store(t, s, entries(1, 30, 1, 600)...)
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	file, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	value, _ := appendEntry(nil, entry(17, 1, 600))
	at := bytes.Index(file, value)
	if at < 0 {
		t.Fatal("entry 17 not found in the file")
	}
	if _, err := f.WriteAt([]byte{value[100] ^ 4}, int64(at+100)); err != nil {
		t.Fatal(err)
	}
	if err := s.GetLog(16, new(raft.Log)); err != nil {
		t.Errorf("entry 16: %v", err)
	}
	err = s.GetLog(17, new(raft.Log))
	var where *CorruptError
	if !errors.As(err, &where) || where.File != path || where.Bucket != "log" || where.Key != "index 17" {
		t.Errorf("entry 17: %v, want its place", err)
	}
	if mine, err := s.failStop.fail("test", io.EOF); mine != nil || !errors.Is(err, ErrCorrupt) { // a second reader met damage at the same time
		t.Errorf("a second failure: %v, %v, want the first one", mine, err)
	}
	for name, err := range callAll(s) {
		if !errors.Is(err, ErrFailed) || !errors.Is(err, ErrCorrupt) {
			t.Errorf("%s: %v, want ErrFailed because of ErrCorrupt", name, err)
		}
	}
	if len(calls) != 1 || !errors.Is(calls[0], ErrFailed) {
		t.Errorf("OnFailure was called with %v", calls)
	}
	closeStore(t, s)
	if _, err := Open(path, Options{}); !errors.As(err, &where) || where.Key != "index 17" {
		t.Errorf("reopened: %v, want entry 17", err)
	}
}

// A mapped file that loses its pages is a fault (SIGBUS). The call that meets it returns an error.
func TestFaultWhileOpen(t *testing.T) {
	path := newPath(t)
	calls := 0
	s := open(t, path, Options{OnFailure: func(error) { calls++ }})
	store(t, s, entries(1, 300, 1, 600)...)
	if err := os.Truncate(path, 2*pageSize); err != nil {
		t.Fatal(err)
	}
	if err := s.GetLog(150, new(raft.Log)); !errors.Is(err, ErrFailed) || !strings.Contains(err.Error(), path) {
		t.Errorf("%v, want ErrFailed", err)
	}
	if err := s.StoreLog(entry(301, 1, 1)); !errors.Is(err, ErrFailed) || calls != 1 {
		t.Errorf("%v after %d calls of OnFailure, want ErrFailed after one", err, calls)
	}
	if _, err := Open(path, Options{LockTimeout: 1}); !errors.Is(err, ErrInUse) {
		t.Errorf("second Open: %v, want ErrInUse", err)
	}
}
