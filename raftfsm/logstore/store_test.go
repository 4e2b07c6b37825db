package logstore

import (
	"bytes"
	"errors"
	"slices"
	"sync"
	"testing"

	"github.com/hashicorp/raft"
)

func TestEmpty(t *testing.T) {
	s := open(t, newPath(t), Options{})
	wantRange(t, s, 0, 0)
	wantEntries(t, s, nil)
	if err := s.GetLog(1, new(raft.Log)); err != raft.ErrLogNotFound { //nolint:errorlint // raft compares it like this
		t.Errorf("GetLog: %v, want raft.ErrLogNotFound itself", err)
	}
	if n, err := s.GetCommitIndex(); n != 0 || err != nil {
		t.Errorf("GetCommitIndex: %d, %v, want 0", n, err)
	}
	if err := s.DeleteRange(0, 0); err != nil { // raft.RecoverCluster on an empty log
		t.Errorf("DeleteRange: %v", err)
	}
	if err := s.StoreLogs(nil); err != nil {
		t.Errorf("StoreLogs(nil): %v", err)
	}
}

func TestStoreLogs(t *testing.T) {
	path := newPath(t)
	s := open(t, path, Options{})
	logs := slices.Concat(
		entries(1, 3, 1, 0),
		entries(4, 200, 1, 100),
		entries(201, 203, 2, 8191),
		entries(204, 206, 2, 8192),
		entries(207, 207, 3, 3<<20),
		entries(208, 220, 3, 2000),
	)
	store(t, s, logs[0])
	store(t, s, logs[1:210]...)
	store(t, s, logs[210:]...)
	wantRange(t, s, 1, 220)
	wantEntries(t, s, logMap(logs...))

	closeStore(t, s)
	s = open(t, path, Options{})
	wantRange(t, s, 1, 220)
	wantEntries(t, s, logMap(logs...))
}

func TestGetLogCopies(t *testing.T) {
	s := open(t, newPath(t), Options{})
	store(t, s, entry(1, 1, 50), entry(2, 1, 8192))
	for i := range uint64(2) {
		var l raft.Log
		if err := s.GetLog(i+1, &l); err != nil {
			t.Fatal(err)
		}
		clear(l.Data)
	}
	wantEntries(t, s, logMap(entry(1, 1, 50), entry(2, 1, 8192)))
}

// The caller may reuse what it passed in.
func TestStoreLogsCopies(t *testing.T) {
	s := open(t, newPath(t), Options{})
	l := entry(1, 1, 50)
	store(t, s, l)
	clear(l.Data)
	store(t, s, entry(2, 2, 70))
	wantEntries(t, s, logMap(entry(1, 1, 50), entry(2, 2, 70)))
}

func TestRefusedAppends(t *testing.T) {
	s := open(t, newPath(t), Options{OnFailure: func(err error) { t.Errorf("OnFailure: %v", err) }})
	before, _ := s.Stats()
	for _, logs := range [][]*raft.Log{{entry(0, 1, 1)}, {entry(1, 1, 1), entry(3, 1, 1)}, {entry(2, 1, 1), entry(1, 1, 1)}} {
		if err := s.StoreLogs(logs); !errors.Is(err, ErrOutOfOrder) {
			t.Errorf("%d entries from %d: %v, want ErrOutOfOrder", len(logs), logs[0].Index, err)
		}
	}
	kept := entries(5, 10, 1, 10)
	store(t, s, kept...)
	for _, i := range []uint64{1, 4, 5, 10} {
		if err := s.StoreLog(entry(i, 2, 10)); !errors.Is(err, ErrOutOfOrder) {
			t.Errorf("entry %d: %v, want ErrOutOfOrder", i, err)
		}
	}
	wrap := []*raft.Log{{Index: ^uint64(0)}, {Index: 0}}
	if err := s.StoreLogs(wrap); !errors.Is(err, ErrOutOfOrder) {
		t.Errorf("entries that wrap round: %v, want ErrOutOfOrder", err)
	}
	if err := s.StoreLog(&raft.Log{Index: 11, Data: make([]byte, MaxEntryBytes+1)}); !errors.Is(err, ErrLimit) {
		t.Errorf("too large: %v, want ErrLimit", err)
	}
	wantEntries(t, s, logMap(kept...))
	if after, _ := s.Stats(); after.Syncs != before.Syncs+1 {
		t.Errorf("%d fdatasyncs, want 1", after.Syncs-before.Syncs)
	}
}

func TestDeleteRange(t *testing.T) {
	for name, c := range map[string]struct{ low, high, first, last uint64 }{
		"prefix":           {1, 40, 41, 100},
		"more than prefix": {0, 1, 10, 100},
		"one":              {10, 10, 11, 100},
		"tail":             {90, 100, 10, 89},
		"beyond the tail":  {90, 1000, 10, 89},
		"all":              {10, 100, 0, 0},
		"more than all":    {0, ^uint64(0), 0, 0},
		"middle":           {50, 60, 10, 100},
		"below":            {1, 9, 10, 100},
		"above":            {101, 200, 10, 100},
		"nothing":          {60, 50, 10, 100},
	} {
		t.Run(name, func(t *testing.T) {
			path := newPath(t)
			s := open(t, path, Options{})
			want := map[uint64]*raft.Log{}
			for _, l := range entries(10, 100, 1, 300) {
				if l.Index%10 == 0 {
					l = entry(l.Index, 1, 8300)
				}
				store(t, s, l)
				if l.Index < c.low || l.Index > c.high {
					want[l.Index] = l
				}
			}
			if err := s.DeleteRange(c.low, c.high); err != nil {
				t.Fatal(err)
			}
			wantRange(t, s, c.first, c.last)
			wantEntries(t, s, want)
			closeStore(t, s)
			s = open(t, path, Options{})
			wantRange(t, s, c.first, c.last)
			wantEntries(t, s, want)
		})
	}
}

// TestBoundedFiles: a log that is cut as fast as it grows has bounded files, whatever the sizes of its entries.
func TestBoundedFiles(t *testing.T) {
	const segment, perRound, trail = 64 << 10, 30, 60
	path := newPath(t)
	s := open(t, path, Options{SegmentBytes: segment})
	size := func(i uint64) int { return [...]int{120, 900, 5000, 64, 20_000, 120}[(i/20)%6] }
	next := uint64(1)
	for range 100 {
		var logs []*raft.Log
		for range perRound {
			logs = append(logs, entry(next, 1, size(next)))
			next++
		}
		store(t, s, logs[:perRound/2]...)
		store(t, s, logs[perRound/2:]...)
		if err := s.DeleteRange(next-5, next-1); err != nil { // a conflicting tail
			t.Fatal(err)
		}
		if next -= 5; next > trail {
			if err := s.DeleteRange(1, next-trail); err != nil {
				t.Fatal(err)
			}
		}
		st, err := s.Stats()
		if err != nil {
			t.Fatal(err)
		}
		if most := int64(trail*20_000 + 3*perRound*20_000); st.FileBytes > most {
			t.Fatalf("%d bytes for %d entries, want %d at most", st.FileBytes, st.Entries, most)
		}
	}
	if st, err := s.Stats(); err != nil || st.FileBytes > 24*segment || next < 2000 {
		t.Errorf("%d bytes after %d entries, %v", st.FileBytes, next, err)
	}
}

// raft leaves a hole when it goes on after a snapshot from the leader.
func TestHole(t *testing.T) {
	path := newPath(t)
	s := open(t, path, Options{})
	before, after := entries(1, 20, 1, 30), entries(51, 60, 2, 30)
	store(t, s, before...)
	store(t, s, after...)
	closeStore(t, s)
	s = open(t, path, Options{})
	wantRange(t, s, 1, 60)
	wantEntries(t, s, logMap(append(before, after...)...))

	if err := s.DeleteRange(1, 55); err != nil { // the next compaction reaches across
		t.Fatal(err)
	}
	wantRange(t, s, 56, 60)
	wantEntries(t, s, logMap(after[5:]...))
}

func TestDeleteRangeIntoHole(t *testing.T) {
	for name, c := range map[string]struct{ low, high, first, last uint64 }{
		"prefix ends in the hole":  {1, 30, 51, 60},
		"range within the hole":    {30, 40, 1, 60},
		"tail begins in the hole":  {30, 60, 1, 20},
		"tail reaches before it":   {15, 99, 1, 14},
		"middle reaches before it": {15, 30, 1, 60},
	} {
		t.Run(name, func(t *testing.T) {
			s := open(t, newPath(t), Options{})
			all := append(entries(1, 20, 1, 30), entries(51, 60, 2, 30)...)
			store(t, s, all[:20]...)
			store(t, s, all[20:]...)
			if err := s.DeleteRange(c.low, c.high); err != nil {
				t.Fatal(err)
			}
			wantRange(t, s, c.first, c.last)
			wantEntries(t, s, logMap(slices.DeleteFunc(all, func(l *raft.Log) bool { return c.low <= l.Index && l.Index <= c.high })...))
		})
	}
}

func TestStable(t *testing.T) {
	path := newPath(t)
	s := open(t, path, Options{})
	if _, err := s.Get([]byte("k")); err != ErrKeyNotFound || err.Error() != "not found" { //nolint:errorlint // raft compares the text
		t.Errorf("Get: %v, want exactly %q", err, "not found")
	}
	if _, err := s.GetUint64([]byte("k")); err != ErrKeyNotFound { //nolint:errorlint // as above
		t.Errorf("GetUint64: %v, want ErrKeyNotFound itself", err)
	}
	check := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	check(s.SetUint64([]byte("CurrentTerm"), 1))
	check(s.SetUint64([]byte("CurrentTerm"), 1<<63+5))
	check(s.Set([]byte("LastVoteCand"), []byte("n1")))
	check(s.Set([]byte("empty"), nil))
	check(s.Set([]byte("big"), bytes.Repeat([]byte("x"), MaxValueBytes)))
	for range 2 {
		if v, err := s.GetUint64([]byte("CurrentTerm")); v != 1<<63+5 || err != nil {
			t.Errorf("CurrentTerm: %d, %v", v, err)
		}
		if v, err := s.Get([]byte("LastVoteCand")); string(v) != "n1" || err != nil {
			t.Errorf("LastVoteCand: %q, %v", v, err)
		}
		if v, err := s.Get([]byte("empty")); v == nil || len(v) != 0 || err != nil {
			t.Errorf("empty: %v, %v, want an empty value", v, err)
		}
		if v, err := s.Get([]byte("big")); len(v) != MaxValueBytes || err != nil {
			t.Errorf("big: %d bytes, %v", len(v), err)
		}
		if _, err := s.GetUint64([]byte("LastVoteCand")); err == nil {
			t.Error("a value of 2 bytes was read as a number")
		}
		closeStore(t, s)
		s = open(t, path, Options{OnFailure: func(err error) { t.Errorf("OnFailure: %v", err) }})
	}
	for _, c := range []struct{ key, val []byte }{
		{nil, nil}, {make([]byte, MaxKeyBytes+1), nil}, {[]byte("k"), make([]byte, MaxValueBytes+1)},
	} {
		if err := s.Set(c.key, c.val); !errors.Is(err, ErrLimit) {
			t.Errorf("Set with %d and %d bytes: %v, want ErrLimit", len(c.key), len(c.val), err)
		}
	}
}

func TestCommitIndex(t *testing.T) {
	path := newPath(t)
	s := open(t, path, Options{})
	want := func(n uint64) {
		t.Helper()
		if got, err := s.GetCommitIndex(); got != n || err != nil {
			t.Fatalf("commit index %d, %v, want %d", got, err, n)
		}
	}
	stage := func(n uint64) {
		t.Helper()
		if err := s.StageCommitIndex(n); err != nil {
			t.Fatal(err)
		}
	}
	reopen := func() {
		t.Helper()
		closeStore(t, s)
		s = open(t, path, Options{})
	}
	stage(7)
	want(0) // staged, not stored
	store(t, s, entries(1, 5, 1, 10)...)
	want(5) // never above the last entry
	stage(4)
	want(5)
	reopen()
	want(5) // what is only staged does not survive
	stage(6)
	if err := s.SetUint64([]byte("CurrentTerm"), 2); err != nil {
		t.Fatal(err)
	}
	reopen()
	want(5) // no other write stores it
	stage(6)
	store(t, s, entries(6, 10, 1, 10)...)
	reopen()
	want(6)
	store(t, s, entry(11, 1, 10))
	want(6) // still what was stored last

	stage(11)
	if err := s.DeleteRange(4, 11); err != nil {
		t.Fatal(err)
	}
	want(3)
	store(t, s, entries(4, 12, 2, 10)...)
	want(3) // the staged 11 was about entries that are gone
	if err := s.DeleteRange(1, 12); err != nil {
		t.Fatal(err)
	}
	want(0)
	reopen()
	want(0)
}

func TestClosed(t *testing.T) {
	s := open(t, newPath(t), Options{OnFailure: func(err error) { t.Errorf("OnFailure: %v", err) }})
	store(t, s, entry(1, 1, 1))
	closeStore(t, s)
	closeStore(t, s)
	for name, err := range callAll(s) {
		if !errors.Is(err, ErrClosed) {
			t.Errorf("%s: %v, want ErrClosed", name, err)
		}
	}
}

// callAll calls every method and returns their errors.
func callAll(s *Store) map[string]error {
	errs := map[string]error{}
	_, errs["FirstIndex"] = s.FirstIndex()
	_, errs["LastIndex"] = s.LastIndex()
	errs["GetLog"] = s.GetLog(1, new(raft.Log))
	errs["StoreLog"] = s.StoreLog(entry(1000, 1, 1))
	errs["StoreLogs"] = s.StoreLogs(entries(1000, 1001, 1, 1))
	errs["StoreLogs(nil)"] = s.StoreLogs(nil)
	errs["DeleteRange"] = s.DeleteRange(1, 1)
	errs["Set"] = s.Set([]byte("k"), nil)
	errs["SetUint64"] = s.SetUint64([]byte("k"), 1)
	_, errs["Get"] = s.Get([]byte("k"))
	_, errs["GetUint64"] = s.GetUint64([]byte("k"))
	errs["StageCommitIndex"] = s.StageCommitIndex(1)
	_, errs["GetCommitIndex"] = s.GetCommitIndex()
	_, errs["Stats"] = s.Stats()
	return errs
}

// raft appends on one goroutine, truncates on a second and reads on several. The race detector watches.
func TestConcurrentUse(t *testing.T) {
	s := open(t, newPath(t), Options{})
	store(t, s, entries(1, 30, 1, 10)...)
	const last = 130
	var writers, readers sync.WaitGroup
	done := make(chan struct{})
	writers.Go(func() {
		for i := uint64(31); i <= last; i++ {
			if err := errors.Join(s.StageCommitIndex(i-1), s.StoreLog(entry(i, 1, int(i)*90))); err != nil {
				t.Error(err)
			}
		}
	})
	writers.Go(func() {
		for i := range uint64(20) {
			if err := s.DeleteRange(1, i); err != nil {
				t.Error(err)
			}
		}
	})
	writers.Go(func() {
		for i := range uint64(50) {
			if err := s.SetUint64([]byte("CurrentTerm"), i); err != nil {
				t.Error(err)
			}
		}
	})
	for range 3 {
		readers.Go(func() {
			for {
				select {
				case <-done:
					return
				default:
				}
				lastIndex, _ := s.LastIndex()
				var l raft.Log
				switch err := s.GetLog(lastIndex, &l); {
				case err != nil:
					t.Errorf("last entry %d: %v", lastIndex, err)
				case !sameEntry(&l, entry(lastIndex, 1, len(l.Data))):
					t.Errorf("last entry %d differs", lastIndex)
				}
				if c, err := s.GetCommitIndex(); err != nil || c > last {
					t.Errorf("commit index %d, %v", c, err)
				}
				if _, err := s.Stats(); err != nil {
					t.Error(err)
				}
			}
		})
	}
	writers.Wait()
	close(done)
	readers.Wait()
	wantRange(t, s, 20, last)
}
