package logstore

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"testing"

	"github.com/hashicorp/raft"
)

// A log that is cut as fast as it grows has a bounded file, whatever the sizes of its entries.
func TestBoundedFile(t *testing.T) {
	s := open(t, newPath(t), Options{CompactFreeBytes: -1})
	const (
		cycles   = 60
		perCycle = 200
		trail    = 100
	)
	size := func(i uint64) int { return [...]int{120, 900, 5000, 20_000, 120, 64}[(i/50)%6] }
	next, limit := uint64(1), int64(0)
	for cycle := range cycles {
		for range perCycle / 10 {
			var logs []*raft.Log
			for range 10 {
				logs = append(logs, entry(next, 1, size(next)))
				next++
			}
			store(t, s, logs...)
		}
		if next > 10*trail && cycle%3 == 0 { // a conflicting tail
			if err := s.DeleteRange(next-20, next-1); err != nil {
				t.Fatal(err)
			}
			next -= 20
		}
		if err := s.DeleteRange(1, next-trail); err != nil {
			t.Fatal(err)
		}
		st, err := s.Stats()
		if err != nil {
			t.Fatal(err)
		}
		switch {
		case cycle == 5:
			limit = 2 * st.FileBytes
		case cycle > 5 && st.FileBytes > limit:
			t.Fatalf("cycle %d: %d bytes, it was %d after 5 cycles: %+v", cycle, st.FileBytes, limit/2, st)
		case st.Entries > trail:
			t.Fatalf("%d entries, want %d", st.Entries, trail)
		}
	}
}

func TestCompact(t *testing.T) {
	path := newPath(t)
	last := fillAndDelete(t, path)
	before, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	want := map[uint64]*raft.Log{}
	for i := uint64(781); i <= last; i++ {
		want[i] = childEntry(i)
	}
	check := func(s *Store) int64 {
		t.Helper()
		wantRange(t, s, 781, last)
		wantEntries(t, s, want)
		if term, err := s.GetUint64([]byte("CurrentTerm")); term != 9 || err != nil {
			t.Errorf("term %d, %v", term, err)
		}
		st, err := s.Stats()
		if err = errors.Join(err, st.Compaction); err != nil {
			t.Fatal(err)
		}
		return st.FileBytes
	}
	for _, free := range []int64{-1, before.Size(), 0} {
		s := open(t, path, Options{CompactFreeBytes: free})
		if n := check(s); n != before.Size() {
			t.Errorf("CompactFreeBytes %d: %d bytes, want the file as it was, %d", free, n, before.Size())
		}
		closeStore(t, s)
	}
	s := open(t, path, Options{CompactFreeBytes: 100_000})
	if n := check(s); n > before.Size()/4 {
		t.Errorf("%d bytes after the compaction, %d before", n, before.Size())
	}
	info, err := os.Stat(path)
	if err != nil || info.Mode() != 0o600 {
		t.Errorf("mode %v, %v", info.Mode(), err)
	}
	store(t, s, childEntry(last+1))
	want[last+1] = childEntry(last + 1)
	closeStore(t, s)
	last++
	s = open(t, path, Options{CompactFreeBytes: 100_000})
	check(s)
}

// Where the copy can not be made the store works without.
func TestCompactWithoutRoom(t *testing.T) {
	needStrace(t)
	for _, fault := range []string{"error=ENOSPC:when=3+", "error=EIO:when=12"} {
		path := newPath(t)
		last := fillAndDelete(t, path)
		before, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		p := start(t, modeShrink, path, "strace", "-f", "-qq", "-o", os.DevNull, "-e", "trace=pwrite64", "-e", "inject=pwrite64:"+fault)
		if err := p.end(); err != nil || !p.opened {
			t.Errorf("%s: %v\n%s", fault, err, p.text)
		}
		if after, err := os.ReadFile(path); err != nil || !bytes.Equal(before, after) {
			t.Errorf("%s: the file was replaced or changed (%v)", fault, err)
		}
		p.acked, p.first, p.term = last, 781, 9
		p.wantAcked(t, path)
	}
}

// A write to the copy is lost although the disk reports success. The process may die of it, but never puts a
// damaged copy in the place of the file.
func TestCompactLostWrite(t *testing.T) {
	needStrace(t)
	path := newPath(t)
	last := fillAndDelete(t, path)
	image, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	kept := 0
	for when := 3; when < 30; when += 3 {
		if err := os.WriteFile(path, image, 0o600); err != nil {
			t.Fatal(err)
		}
		p := start(t, modeShrink, path, "strace", "-f", "-qq", "-o", os.DevNull, "-e", "trace=pwrite64",
			"-e", fmt.Sprintf("inject=pwrite64:retval=4096:when=%d", when))
		_ = p.end()
		if after, err := os.ReadFile(path); err == nil && bytes.Equal(after, image) {
			kept++
		}
		p.acked, p.first, p.term = last, 781, 9
		p.wantAcked(t, path)
	}
	if kept == 0 {
		t.Error("no damaged copy was noticed: the test has shown nothing")
	}
	t.Logf("%d damaged copies thrown away", kept)
}
