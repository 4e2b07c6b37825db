package logstore

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.etcd.io/bbolt"
)

func TestOpenModes(t *testing.T) {
	path := newPath(t)
	store(t, open(t, path, Options{}), entry(1, 1, 1))
	for _, name := range []string{path, path + ".lock"} {
		info, err := os.Stat(name)
		if err != nil {
			t.Fatal(err)
		}
		if info.Mode() != 0o600 {
			t.Errorf("%s: mode %v, want 0600", name, info.Mode())
		}
	}
	names, err := os.ReadDir(filepath.Dir(path))
	if err != nil || len(names) != 3 {
		t.Errorf("directory holds %v, %v", names, err)
	}
}

func TestOpenInUse(t *testing.T) {
	path := newPath(t)
	s := open(t, path, Options{})
	began := time.Now()
	if _, err := Open(path, Options{LockTimeout: 60 * time.Millisecond}); !errors.Is(err, ErrInUse) || !strings.Contains(err.Error(), path) {
		t.Errorf("within one process: %v, want ErrInUse", err)
	}
	if d := time.Since(began); d > 5*time.Second {
		t.Errorf("it took %v", d)
	}
	store(t, s, entry(1, 1, 1))
	closeStore(t, s)

	held, err := lock(path, time.Second) // as during a compaction, when the data file changes under its name
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Open(path, Options{LockTimeout: time.Millisecond}); !errors.Is(err, ErrInUse) {
		t.Errorf("the lock file alone is locked: %v, want ErrInUse", err)
	}
	if err := held.Close(); err != nil {
		t.Fatal(err)
	}

	p := start(t, modeHold, path)
	if !p.next() || !p.opened {
		t.Fatalf("the child did not open: %s%s", p.text, p.errs.String())
	}
	if _, err := Open(path, Options{LockTimeout: time.Millisecond}); !errors.Is(err, ErrInUse) {
		t.Errorf("while another process has it: %v, want ErrInUse", err)
	}
	released := make(chan error, 1)
	go func() { // let go while Open waits
		released <- p.end()
	}()
	s = open(t, path, Options{LockTimeout: time.Minute})
	if err := <-released; err != nil {
		t.Error(err)
	}
	wantRange(t, s, 1, 1)
}

// bbolt's own tools lock the file of settings, not our lock file. One that reads does no harm: the file is replaced.
func TestOpenInUseByTool(t *testing.T) {
	path := newPath(t)
	closeStore(t, open(t, path, Options{}))
	for readOnly, want := range map[bool]error{false: ErrInUse, true: nil} {
		db, err := bbolt.Open(path, 0o600, &bbolt.Options{ReadOnly: readOnly, NoFreelistSync: true})
		if err != nil {
			t.Fatal(err)
		}
		s, err := Open(path, Options{LockTimeout: time.Millisecond})
		if !errors.Is(err, want) {
			t.Errorf("a tool with read only %v: %v, want %v", readOnly, err, want)
		}
		if err == nil {
			closeStore(t, s)
		}
		if err := db.Close(); err != nil {
			t.Fatal(err)
		}
	}
	open(t, path, Options{})
}

func TestOpenBadDirectory(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		path string
		want error
		text string
	}{
		"missing":           {filepath.Join(dir, "none", "raft.db"), fs.ErrNotExist, filepath.Join(dir, "none") + " does not exist"},
		"a file":            {filepath.Join(file, "raft.db"), syscall.ENOTDIR, "not writable"},
		"path is directory": {dir, syscall.EISDIR, dir},
	} {
		s, err := Open(c.path, Options{})
		if !errors.Is(err, c.want) || !strings.Contains(err.Error(), c.text) {
			t.Errorf("%s: %v, want %v and the text %q", name, err, c.want, c.text)
		}
		if err == nil {
			s.Close()
		}
	}
	os.Remove(dir + ".lock")
}

// What a crash leaves is removed.
func TestOpenLeftovers(t *testing.T) {
	path := newPath(t)
	left := []string{path + suffixNew, path + suffixCompact, path + suffixSegments + suffixNew}
	for _, name := range left {
		writeFile(t, name, []byte("half a file"))
	}
	s := open(t, path, Options{})
	store(t, s, entry(1, 1, 1))
	for _, name := range left {
		if _, err := os.Lstat(name); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s is still there (%v)", name, err)
		}
	}
}

// A creation that is cut off before each of its system calls leaves nothing that Open would refuse.
func TestKillCreation(t *testing.T) {
	needStrace(t)
	cut := 0
	for _, call := range []string{"openat", "pwrite64", "ftruncate", "fdatasync", "fsync", "mkdirat", "renameat,rename,renameat2"} {
		for when := 1; ; when++ {
			path := newPath(t)
			p := start(t, modeHold, path, traceKill(call, when)...)
			if err := p.end(); err == nil {
				break
			}
			if when > 60 {
				t.Fatalf("%s: the child still dies at call %d:\n%s", call, when, p.text)
			}
			cut++
			wantRange(t, open(t, path, Options{}), 0, 0)
		}
	}
	if cut < 6 {
		t.Errorf("only %d points", cut)
	}
	t.Logf("cut off at %d points", cut)
}
