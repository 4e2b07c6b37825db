package logstore

import (
	"bytes"
	"errors"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/raft"
)

// sampleLogs is what the log of sample holds: small entries, a large one, a hole.
var sampleLogs = append(entries(21, 119, 2, 90), append(entries(120, 120, 2, 8<<10), entries(131, 150, 3, 90)...)...)

// fill writes a small log as a node does: a truncated prefix, a replaced tail, a vote.
func fill(t testing.TB, s *Store) {
	t.Helper()
	do := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	do(s.SetUint64([]byte("CurrentTerm"), 2))
	do(s.Set([]byte("LastVoteCand"), []byte("n1")))
	store(t, s, entries(1, 20, 1, 90)...)
	store(t, s, sampleLogs[:99]...)
	store(t, s, sampleLogs[99])
	do(s.DeleteRange(1, 20))
	store(t, s, entries(131, 140, 2, 90)...)
	do(s.DeleteRange(131, 140))
	do(s.SetUint64([]byte("CurrentTerm"), 3))
	do(s.StageCommitIndex(125))
	store(t, s, sampleLogs[100:]...)
}

// sample makes the files of a small store.
func sample(t testing.TB) (path string) {
	t.Helper()
	path = newPath(t)
	s, err := Open(path, Options{})
	if err != nil {
		t.Fatal(err)
	}
	fill(t, s)
	closeStore(t, s)
	return path
}

// wantSample checks that a store holds exactly what fill has stored.
func wantSample(t *testing.T, s *Store) {
	t.Helper()
	wantEntries(t, s, logMap(sampleLogs...))
	term, err1 := s.GetUint64([]byte("CurrentTerm"))
	vote, err2 := s.Get([]byte("LastVoteCand"))
	commit, err3 := s.GetCommitIndex()
	if err := errors.Join(err1, err2, err3); term != 3 || string(vote) != "n1" || commit != 125 || err != nil {
		t.Fatalf("silently wrong: term %d, vote %q, commit %d, %v", term, vote, commit, err)
	}
}

// copyStore copies the files of a store.
func copyStore(t testing.TB, path string) string {
	t.Helper()
	to := t.TempDir()
	if err := os.CopyFS(to, os.DirFS(filepath.Dir(path))); err != nil {
		t.Fatal(err)
	}
	return filepath.Join(to, filepath.Base(path))
}

func readFile(t testing.TB, path string) []byte {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func writeFile(t testing.TB, path string, b []byte) {
	t.Helper()
	if err := os.WriteFile(path, b, 0o600); err != nil {
		t.Fatal(err)
	}
}

func writeByte(t testing.TB, path string, at int, b byte) {
	t.Helper()
	f, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err == nil {
		_, err = f.WriteAt([]byte{b}, int64(at))
		err = errors.Join(err, f.Close())
	}
	if err != nil {
		t.Fatal(err)
	}
}

// contentsOf returns the files of a store by their names, without the lock.
func contentsOf(t testing.TB, path string) map[string]string {
	t.Helper()
	all := map[string]string{}
	err := filepath.WalkDir(filepath.Dir(path), func(name string, d os.DirEntry, err error) error {
		if err == nil && d.Type().IsRegular() && name != path+".lock" {
			all[name] = string(readFile(t, name))
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// openDamaged opens a damaged store as a node would. Either it opens, all is right, and it goes on; or the error is clear
// and nothing has changed; never a crash.
func openDamaged(t *testing.T, path string) error {
	t.Helper()
	before := contentsOf(t, path)
	s, err := Open(path, Options{})
	if err != nil {
		wantClear(t, err, path)
		if !maps.Equal(before, contentsOf(t, path)) {
			t.Error("what was refused was changed")
		}
		return err
	}
	wantSample(t, s)
	more := entry(151, 4, 500)
	store(t, s, more)
	closeStore(t, s)
	s = open(t, path, Options{})
	wantEntries(t, s, logMap(append(slices.Clip(sampleLogs), more)...))
	closeStore(t, s)
	return nil
}

// TestEveryBitFlip flips a bit in every byte of the file of settings: none is overlooked.
func TestEveryBitFlip(t *testing.T) {
	path := sample(t)
	file := readFile(t, path)
	step := 1
	if testing.Short() {
		step = 7
	}
	for at := 0; at < len(file); at += step {
		b, bit := file[at], at%8
		writeByte(t, path, at, b^1<<bit)
		switch _, _, err := readSettings(path, time.Second); {
		case errors.Is(err, errNoTrailer): // then it is read as format 1
			if _, err = readFormatOne(path, time.Second, nil); !errors.Is(err, ErrCorrupt) {
				t.Fatalf("bit %d of byte %d: %v", bit, at, err)
			}
		case !errors.Is(err, ErrCorrupt):
			t.Fatalf("bit %d of byte %d: %v", bit, at, err)
		}
		writeByte(t, path, at, b)
	}
}

// TestAnotherVote: a vote that the disk has changed is not taken for the one that was stored.
func TestAnotherVote(t *testing.T) {
	path := sample(t)
	file := readFile(t, path)
	changed := bytes.ReplaceAll(file, []byte("LastVoteCandn1"), []byte("LastVoteCandn3"))
	if bytes.Equal(file, changed) {
		t.Fatal("the vote is not in the file")
	}
	writeFile(t, path, changed)
	if values, _, err := readSettings(path, time.Second); !errors.Is(err, ErrCorrupt) {
		t.Errorf("not noticed: %q, %v", values["LastVoteCand"], err)
	}
}

// TestOpenAfterBitFlip flips bits of all files, as package wal does in the segments alone, and opens the store.
func TestOpenAfterBitFlip(t *testing.T) {
	path := sample(t)
	segment := filepath.Join(path+suffixSegments, "0000000000000001.log")
	rng := rand.New(rand.NewPCG(1, 2))
	found := map[string]int{}
	for i := range 160 {
		damaged := copyStore(t, path)
		name := damaged
		if i%2 == 0 {
			name = filepath.Join(damaged+suffixSegments, filepath.Base(segment))
		}
		file := readFile(t, name)
		used := len(bytes.TrimRight(file, "\x00"))
		file[rng.IntN(used)] ^= 1 << rng.IntN(8)
		writeFile(t, name, file)
		if openDamaged(t, damaged) != nil {
			found[filepath.Ext(name)]++
		}
	}
	if found[".log"] < 70 || found[".db"] < 80 {
		t.Errorf("flips found: %v of 80 each", found)
	}
	t.Logf("flips found: %v of 80 each, the others harmless", found)
}

func TestOpenAfterTruncation(t *testing.T) {
	path := sample(t)
	file := readFile(t, path)
	for size := 0; size < len(file); size += 1000 {
		damaged := copyStore(t, path)
		if err := os.Truncate(damaged, int64(size)); err != nil {
			t.Fatal(err)
		}
		if openDamaged(t, damaged) == nil {
			t.Errorf("settings truncated to %d bytes: not noticed", size)
		}
	}
	segment := filepath.Join(path+suffixSegments, "0000000000000001.log")
	for _, size := range []int64{0, 1, 511, 512, 4096, 100_000, 256<<10 - 1} {
		damaged := copyStore(t, path)
		name := filepath.Join(damaged+suffixSegments, filepath.Base(segment))
		if err := os.Truncate(name, size); err != nil {
			t.Fatal(err)
		}
		if err := openDamaged(t, damaged); !errors.Is(err, ErrCorrupt) || !strings.Contains(err.Error(), name) {
			t.Errorf("segment truncated to %d bytes: %v", size, err)
		}
	}
}

// TestMissingFiles: a part of a store is not taken for a new one.
func TestMissingFiles(t *testing.T) {
	for what, remove := range map[string]func(path string) error{
		"settings": os.Remove,
		"segments": func(path string) error { return os.RemoveAll(path + suffixSegments) },
		"a segment": func(path string) error {
			return os.Remove(filepath.Join(path+suffixSegments, "0000000000000001.log"))
		},
	} {
		path := sample(t)
		if err := remove(path); err != nil {
			t.Fatal(err)
		}
		writeFile(t, path+suffixNew, []byte("half a file"))
		if what != "segments" {
			writeFile(t, filepath.Join(path+suffixSegments, "7.spare"), []byte("a file"))
		}
		if err := openDamaged(t, path); !errors.Is(err, ErrCorrupt) {
			t.Errorf("without %s: %v", what, err)
		}
	}
}

// TestOtherSettings: the settings of another store are not taken for those of the segments beside them.
func TestOtherSettings(t *testing.T) {
	path, other := sample(t), sample(t)
	writeFile(t, path, readFile(t, other))
	if err := openDamaged(t, path); !errors.Is(err, ErrCorrupt) || !strings.Contains(err.Error(), "belongs to another log") {
		t.Errorf("%v, want ErrCorrupt", err)
	}
}

// TestLostPageWrite: a page of the settings that holds what it held before (a lost write) is found.
func TestLostPageWrite(t *testing.T) {
	path := newPath(t)
	s := open(t, path, Options{})
	var images [][]byte
	for i := range 9 {
		val := bytes.Repeat([]byte{byte(i)}, 5+i%3*3000) // also too large for the root page
		if err := errors.Join(s.SetUint64([]byte("CurrentTerm"), uint64(i)), s.Set([]byte("LastVoteCand"), val)); err != nil {
			t.Fatal(err)
		}
		images = append(images, readFile(t, path))
	}
	closeStore(t, s)
	now, tried := images[len(images)-1], 0
	damaged := newPath(t)
	for p := 0; p < len(now)/pageSize; p++ {
		for _, old := range images[:len(images)-1] {
			mixed := bytes.Clone(now)
			if copy(mixed[p*pageSize:], old[p*pageSize:(p+1)*pageSize]); bytes.Equal(mixed, now) {
				continue
			}
			tried++
			writeFile(t, damaged, mixed)
			if _, _, err := readSettings(damaged, time.Second); !errors.Is(err, ErrCorrupt) {
				t.Errorf("an older page %d: %v, want ErrCorrupt", p, err)
			}
		}
	}
	if tried < 20 {
		t.Errorf("only %d combinations", tried)
	}
}

// TestDamageWhileOpen: damage that comes while the store is open is found by the read that meets it, and stops the store.
func TestDamageWhileOpen(t *testing.T) {
	path := newPath(t)
	var calls []error
	s := open(t, path, Options{OnFailure: func(err error) { calls = append(calls, err) }})
	store(t, s, entries(1, 30, 1, 600)...)
	segment := filepath.Join(path+suffixSegments, "0000000000000001.log")
	value := appendEntry(nil, entry(17, 1, 600))
	at := bytes.Index(readFile(t, segment), value)
	if at < 0 {
		t.Fatal("entry 17 not found in the segment")
	}
	writeByte(t, segment, at+100, value[100]^4)
	if err := s.GetLog(16, new(raft.Log)); err != nil {
		t.Errorf("entry 16: %v", err)
	}
	err := s.GetLog(17, new(raft.Log))
	var where *CorruptError
	if !errors.As(err, &where) || where.File != segment || where.Offset != int64(at) || where.Key != "index 17" {
		t.Errorf("entry 17: %v, want its place", err)
	}
	if mine, err := s.failStop.fail("test", errors.New("another")); mine != nil || !errors.Is(err, ErrCorrupt) { // a second reader met damage at the same time
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
	if _, err := Open(path, Options{}); !errors.As(err, &where) || where.File != segment {
		t.Errorf("reopened: %v, want the segment", err)
	}
}
