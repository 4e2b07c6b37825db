package logstore

import (
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"testing"

	"github.com/hashicorp/raft"
	"pgregory.net/rapid"
)

// raftKeys are the keys under which raft stores what is no entry.
var raftKeys = []string{"CurrentTerm", keyVoteTerm, keyVoteCandidate}

// model is what a log store is, without a disk.
type model struct {
	logs           map[uint64]*raft.Log
	kv             map[string]string
	commit, staged uint64
}

func (m *model) bounds() (first, last uint64) {
	for i := range m.logs {
		if first == 0 || i < first {
			first = i
		}
		last = max(last, i)
	}
	return first, last
}

// The store behaves like the model, whatever the order of calls, and a reopened store like one that
// was never closed.
func TestModel(t *testing.T) {
	dir, runs := t.TempDir(), 0
	rapid.Check(t, func(t *rapid.T) {
		runs++
		path := filepath.Join(dir, fmt.Sprint(runs))
		s, err := Open(path, Options{})
		if err != nil {
			t.Fatal(err)
		}
		defer func() { s.Close() }()
		m := &model{logs: map[uint64]*raft.Log{}, kv: map[string]string{}}

		add := func(t *rapid.T, from uint64) {
			n := rapid.Uint64Range(1, 40).Draw(t, "n")
			size := rapid.SampledFrom([]int{0, 20, 400, 3000, 8000, 40_000}).Draw(t, "size")
			term := rapid.Uint64Range(1, 9).Draw(t, "term")
			logs := entries(from, from+n-1, term, size)
			if err := s.StoreLogs(logs); err != nil {
				t.Fatal(err)
			}
			for _, l := range logs {
				m.logs[l.Index] = l
			}
			m.commit = min(m.staged, from+n-1)
		}
		remove := func(t *rapid.T, low, high uint64) {
			if err := s.DeleteRange(low, high); err != nil {
				t.Fatal(err)
			}
			_, before := m.bounds()
			maps.DeleteFunc(m.logs, func(i uint64, _ *raft.Log) bool { return low <= i && i <= high })
			if _, last := m.bounds(); last < before {
				m.commit, m.staged = min(m.commit, last), min(m.staged, last)
			}
		}
		t.Repeat(map[string]func(*rapid.T){
			"append": func(t *rapid.T) {
				_, last := m.bounds()
				add(t, last+1)
			},
			"append after a hole": func(t *rapid.T) {
				_, last := m.bounds()
				add(t, last+rapid.Uint64Range(2, 30).Draw(t, "hole"))
			},
			"append too low": func(t *rapid.T) {
				first, last := m.bounds()
				low := rapid.Uint64Range(0, last).Draw(t, "low")
				if err := s.StoreLog(entry(low, 99, 5)); !errors.Is(err, ErrOutOfOrder) {
					t.Fatalf("entry %d into %d..%d: %v", low, first, last, err)
				}
			},
			"delete prefix": func(t *rapid.T) {
				first, last := m.bounds()
				remove(t, first, rapid.Uint64Range(first, last).Draw(t, "to"))
			},
			"delete tail": func(t *rapid.T) {
				first, last := m.bounds()
				remove(t, rapid.Uint64Range(first, last).Draw(t, "from"), last)
			},
			"delete any": func(t *rapid.T) {
				_, last := m.bounds()
				low := rapid.Uint64Range(0, last+5).Draw(t, "low")
				remove(t, low, low+rapid.Uint64Range(0, 20).Draw(t, "n"))
			},
			"stage": func(t *rapid.T) {
				_, last := m.bounds()
				m.staged = rapid.Uint64Range(0, last+20).Draw(t, "index")
				if err := s.StageCommitIndex(m.staged); err != nil {
					t.Fatal(err)
				}
			},
			"set": func(t *rapid.T) {
				key := rapid.SampledFrom(raftKeys).Draw(t, "key")
				val := string(rapid.SliceOfN(rapid.Byte(), 0, 900).Draw(t, "val"))
				if err := s.Set([]byte(key), []byte(val)); err != nil {
					t.Fatal(err)
				}
				if key == keyVoteTerm && m.kv[key] != val {
					delete(m.kv, keyVoteCandidate)
				}
				m.kv[key] = val
			},
			"reopen": func(t *rapid.T) {
				if err := s.Close(); err != nil {
					t.Fatal(err)
				}
				if s, err = Open(path, Options{}); err != nil {
					t.Fatal(err)
				}
				m.staged = m.commit
			},
			"": func(t *rapid.T) { m.check(t, s) },
		})
	})
}

func (m *model) check(t *rapid.T, s *Store) {
	first, last := m.bounds()
	gotFirst, err1 := s.FirstIndex()
	gotLast, err2 := s.LastIndex()
	commit, err3 := s.GetCommitIndex()
	if err := errors.Join(err1, err2, err3); err != nil || gotFirst != first || gotLast != last || commit != m.commit {
		t.Fatalf("%d..%d, commit %d, %v; want %d..%d, commit %d", gotFirst, gotLast, commit, err, first, last, m.commit)
	}
	for i := max(first, 1) - 1; i <= last+1; i++ {
		var got raft.Log
		err, want := s.GetLog(i, &got), m.logs[i]
		if want == nil && err != raft.ErrLogNotFound || want != nil && (err != nil || !sameEntry(want, &got)) { //nolint:errorlint // as raft does
			t.Fatalf("entry %d: %+v, %v, want %+v", i, got, err, want)
		}
	}
	for _, key := range raftKeys {
		want, stored := m.kv[key]
		if got, err := s.Get([]byte(key)); string(got) != want || (err == nil) != stored {
			t.Fatalf("%s: %q, %v, want %q", key, got, err, want)
		}
	}
	st, err := s.Stats()
	if err != nil || st.Entries != uint64(len(m.logs)) || st.FreeBytes < 0 || st.FreeBytes > st.FileBytes {
		t.Fatalf("stats %+v, %v; want %d entries", st, err, len(m.logs))
	}
}
