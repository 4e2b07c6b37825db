package logstore

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"testing"
)

// sampleLogs is what the file of sample holds: several leaves, a branch, a large entry, a hole.
var sampleLogs = append(entries(21, 119, 2, 90), append(entries(120, 120, 2, largeEntry), entries(131, 150, 3, 90)...)...)

var sampleValues = func() (values [][]byte) {
	for _, l := range sampleLogs {
		v, _ := appendEntry(nil, l)
		values = append(values, v)
	}
	return values
}()

// sample is a small store's file, written as by a node: a truncated prefix, a replaced tail, a
// vote.
func sample(t testing.TB) []byte {
	t.Helper()
	path := newPath(t)
	s, err := Open(path, Options{})
	if err != nil {
		t.Fatal(err)
	}
	fill := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	fill(s.SetUint64([]byte("CurrentTerm"), 2))
	fill(s.Set([]byte("LastVoteCand"), []byte("n1")))
	store(t, s, entries(1, 20, 1, 90)...)
	store(t, s, sampleLogs[:99]...)
	store(t, s, sampleLogs[99])
	fill(s.DeleteRange(1, 20))
	store(t, s, entries(131, 140, 2, 90)...)
	fill(s.DeleteRange(131, 140))
	fill(s.SetUint64([]byte("CurrentTerm"), 3))
	fill(s.StageCommitIndex(125))
	store(t, s, sampleLogs[100:]...)
	closeStore(t, s)
	file, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return file
}

// verifySame audits a file and, if it passes, requires it to hold exactly what the sample holds.
func verifySame(t testing.TB, file []byte, want fileStats) error {
	t.Helper()
	n, wrong := 0, 0
	got, err := verify("file", bytes.NewReader(file), int64(len(file)), func(index uint64, value []byte) {
		if n >= len(sampleLogs) || index != sampleLogs[n].Index || !bytes.Equal(value, sampleValues[n]) {
			wrong++
		}
		n++
	})
	if err != nil {
		return err
	}
	if wrong > 0 || n != len(sampleLogs) || got.record != want.record || got.first != want.first || got.last != want.last {
		t.Errorf("silently wrong: %d of %d entries, %+v, want %+v", wrong, n, got, want)
	}
	return nil
}

// usedPages returns the pages that hold something, by the walker's own account.
func usedPages(t testing.TB, file []byte) []int {
	t.Helper()
	w, err := newWalker("file", bytes.NewReader(file), int64(len(file)))
	if err != nil {
		t.Fatal(err)
	}
	pages := []int{0, 1}
	var visitAll visit
	visitAll = func(_, value []byte, sub bool) error {
		if !sub {
			return nil
		}
		return w.bucketAt(bytes.Clone(value), visitAll)
	}
	if err := w.root(visitAll); err != nil {
		t.Fatal(err)
	}
	for p := 2; p < int(w.meta.high); p++ {
		if w.seen[p/64]&(1<<(p%64)) != 0 {
			pages = append(pages, p)
		}
	}
	return pages
}

// Every bit of every page in use, one at a time: the audit finds it, or everything is still right.
func TestEveryBitFlip(t *testing.T) {
	file := sample(t)
	want, err := verify("file", bytes.NewReader(file), int64(len(file)), nil)
	if err != nil {
		t.Fatal(err)
	}
	pages := usedPages(t, file)
	if len(pages) < 9 || want.holes != 1 {
		t.Fatalf("the sample is too simple: pages %v, %+v", pages, want)
	}
	found, harmless := 0, 0
	for _, p := range pages {
		step := 1
		if testing.Short() {
			step = 17
		}
		for bit := p * pageSize * 8; bit < (p+1)*pageSize*8; bit += step {
			file[bit/8] ^= 1 << (bit % 8)
			if err := verifySame(t, file, want); err != nil {
				found++
				if !errors.Is(err, ErrCorrupt) && !errors.Is(err, ErrNotLogStore) {
					t.Errorf("bit %d of page %d: unclear error: %v", bit%8, p, err)
				}
			} else {
				harmless++
			}
			file[bit/8] ^= 1 << (bit % 8)
			if t.Failed() {
				t.Fatalf("after flipping bit %d of byte %d of page %d", bit%8, bit/8%pageSize, p)
			}
		}
	}
	t.Logf("%d pages, %d flips found, %d harmless (unused bytes)", len(pages), found, harmless)
	if found < harmless {
		t.Errorf("only %d flips found, %d harmless: the sample holds too little", found, harmless)
	}
}

// openSame opens a damaged file as a node would. Either it opens and all is right, or the error is clear; never
// a crash.
func openSame(t *testing.T, file []byte) error {
	t.Helper()
	path := newPath(t)
	if err := os.WriteFile(path, file, 0o600); err != nil {
		t.Fatal(err)
	}
	s, err := Open(path, Options{})
	if err != nil {
		wantClear(t, err, path)
		after, readErr := os.ReadFile(path)
		if readErr != nil || !bytes.Equal(after, file) {
			t.Errorf("the refused file was changed (%v)", readErr)
		}
		return err
	}
	wantEntries(t, s, logMap(sampleLogs...))
	term, err1 := s.GetUint64([]byte("CurrentTerm"))
	vote, err2 := s.Get([]byte("LastVoteCand"))
	commit, err3 := s.GetCommitIndex()
	if term != 3 || string(vote) != "n1" || commit != 125 || errors.Join(err1, err2, err3) != nil {
		t.Errorf("silently wrong: term %d, vote %q, commit %d, %v", term, vote, commit, errors.Join(err1, err2, err3))
	}
	store(t, s, entry(151, 4, 500))
	closeStore(t, s)
	s = open(t, path, Options{})
	wantEntries(t, s, logMap(append(sampleLogs[:len(sampleLogs):len(sampleLogs)], entry(151, 4, 500))...))
	return nil
}

// The same through Open, bbolt and the mapped file, for a sample of the bits.
func TestOpenAfterBitFlip(t *testing.T) {
	file := sample(t)
	pages := usedPages(t, file)
	rng := rand.New(rand.NewPCG(1, 2))
	found := 0
	for range 200 {
		at := pages[rng.IntN(len(pages))]*pageSize + rng.IntN(pageSize)
		if rng.IntN(4) == 0 {
			at = rng.IntN(len(file))
		}
		damaged := bytes.Clone(file)
		damaged[at] ^= 1 << rng.IntN(8)
		if openSame(t, damaged) != nil {
			found++
		}
	}
	if found == 0 {
		t.Error("no flip was found")
	}
	t.Logf("%d of 200 flips found, the others harmless", found)
}

// A branch key that moved would hide entries from a search that a walk still meets.
func TestOpenAfterBranchKeyFlip(t *testing.T) {
	file := sample(t)
	keys := 0
	for _, id := range usedPages(t, file)[2:] {
		p, err := parsePage(uint64(id), file[id*pageSize:(id+1)*pageSize])
		if err != nil || p.leaf {
			continue
		}
		for i := range p.n {
			keys++
			for bit := range 8 {
				key := p.key(i)
				key[7] ^= 1 << bit
				openSame(t, file)
				key[7] ^= 1 << bit
			}
		}
	}
	if keys < 3 {
		t.Errorf("the sample has only %d branch keys", keys)
	}
}

// Whichever of the two meta pages is the newer one, bbolt would go on with the other.
func TestDamagedMeta(t *testing.T) {
	path := newPath(t)
	for i := range uint64(2) {
		s := open(t, path, Options{})
		store(t, s, entry(i+1, 1, 10))
		closeStore(t, s)
		for page := range int64(2) {
			file, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			file[page*pageSize+pageHeader+40] ^= 2
			if _, err := verify("file", bytes.NewReader(file), int64(len(file)), nil); !errors.Is(err, ErrCorrupt) ||
				!strings.Contains(err.Error(), fmt.Sprintf("meta page %d", page)) {
				t.Errorf("meta page %d damaged after entry %d: %v", page, i+1, err)
			}
		}
	}
}

func TestOpenAfterTruncation(t *testing.T) {
	file := sample(t)
	w, err := newWalker("file", bytes.NewReader(file), int64(len(file)))
	if err != nil {
		t.Fatal(err)
	}
	live := int(w.meta.high) * pageSize
	sizes := []int{0, 1, 16, 20, 79, 80, 4095, 4096, 4175, 8191, 8192, live - 1, live, live + 1, len(file) - 1}
	for size := pageSize; size < len(file); size += 3 * pageSize {
		sizes = append(sizes, size, size+1234)
	}
	for _, size := range sizes {
		if size > len(file) {
			continue
		}
		if err := openSame(t, file[:size]); (err == nil) != (size >= live) {
			t.Errorf("truncated to %d bytes, %d of %d are live: %v", size, live, len(file), err)
		}
	}
}

// A page that falls back to what it held before (a lost write) is found, although all of its checksums are
// right.
func TestLostPageWrite(t *testing.T) {
	path := newPath(t)
	s := open(t, path, Options{})
	var images [][]byte
	snap := func() {
		image, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		images = append(images, image)
	}
	store(t, s, entries(1, 60, 1, 90)...)
	snap()
	for term := uint64(2); term < 8; term++ { // votes alone: they rewrite the root page and nothing else
		if err := s.SetUint64([]byte("CurrentTerm"), term); err != nil {
			t.Fatal(err)
		}
		snap()
	}
	tried := lostPages(t, images)
	for term := uint64(2); term < 12; term++ { // the tail is replaced again and again, in the same few pages
		if err := errors.Join(s.DeleteRange(50, 60), s.SetUint64([]byte("CurrentTerm"), term)); err != nil {
			t.Fatal(err)
		}
		store(t, s, entries(50, 60, term, 90)...)
		snap()
	}
	tried += lostPages(t, images)
	images = nil
	for i := range 6 { // a value too large for the root page
		if err := s.Set([]byte("LastVoteCand"), bytes.Repeat([]byte{byte(i)}, 3000)); err != nil {
			t.Fatal(err)
		}
		snap()
	}
	tried += lostPages(t, images)
	if tried < 20 {
		t.Errorf("only %d combinations: the pages were not used again", tried)
	}
}

// lostPages puts every older version of every page into the newest image, which must not pass then.
func lostPages(t *testing.T, images [][]byte) (tried int) {
	t.Helper()
	now := images[len(images)-1]
	for _, p := range usedPages(t, now) {
		for _, old := range images[:len(images)-1] {
			if len(old) < (p+1)*pageSize || bytes.Equal(old[p*pageSize:(p+1)*pageSize], now[p*pageSize:(p+1)*pageSize]) {
				continue
			}
			if p < 2 && order.Uint64(old[p*pageSize+pageHeader+48:])+2 == order.Uint64(now[p*pageSize+pageHeader+48:]) && newestMeta(now) == p {
				continue // the very last write of all: without it the file is as it was before
			}
			mixed := bytes.Clone(now)
			copy(mixed[p*pageSize:], old[p*pageSize:(p+1)*pageSize])
			tried++
			if _, err := verify("file", bytes.NewReader(mixed), int64(len(mixed)), nil); !errors.Is(err, ErrCorrupt) && !errors.Is(err, ErrNotLogStore) {
				t.Errorf("an older page %d: %v, want ErrCorrupt", p, err)
			}
		}
	}
	return tried
}

func newestMeta(file []byte) int {
	if order.Uint64(file[pageSize+pageHeader+48:]) > order.Uint64(file[pageHeader+48:]) {
		return 1
	}
	return 0
}

// A walker is not led astray by a tree that refers to itself.
func TestWalkLoop(t *testing.T) {
	file := sample(t)
	for _, p := range usedPages(t, file)[2:] {
		page := file[p*pageSize:]
		if order.Uint16(page[8:]) != flagBranch {
			continue
		}
		binary.NativeEndian.PutUint64(page[pageHeader+8:], uint64(p))
		if _, err := verify("file", bytes.NewReader(file), int64(len(file)), nil); !errors.Is(err, ErrCorrupt) || !strings.Contains(err.Error(), "twice") {
			t.Errorf("%v, want ErrCorrupt: referenced twice", err)
		}
		return
	}
	t.Error("the sample has no branch page")
}
