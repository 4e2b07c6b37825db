package machine

import (
	"bytes"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/txmgr/txmgr/timeout/survival"
	"github.com/txmgr/txmgr/txn"
)

// arenaModel is a belt of arenas, and a slice with the same contents.
type arenaModel struct {
	kept   retained
	shared *atomic.Int32
	tick   survival.Tick
	row    []arenaEntry
	made   uint64
	photos []arenaSnapshot
}

type arenaEntry struct {
	id  txn.ID
	off survival.Tick
	o   outcome
}

// arenaSnapshot is what a snapshot shares, and what was on the belt at that time.
type arenaSnapshot struct {
	chunks []chunk
	row    []arenaEntry
}

// shelfLife is the retention of a shelf, in ticks.
const shelfLife = 3

func newArenaModel() *arenaModel {
	s := &arenaModel{shared: new(atomic.Int32)}
	s.kept = newRetained(Bootstrap{Interval: time.Second, Retention: shelfLife * time.Second, Retain: 1 << 40}, 0, s.shared)
	return s
}

func (s *arenaModel) put(t *rapid.T) {
	// Some fill a chunk completely, alone or with three others, and one is larger than a chunk.
	size := rapid.SampledFrom([]int{0, 1, 90, 200, chunkSize/4 - arenaEntryHeader, chunkSize - arenaEntryHeader, chunkSize}).Draw(t, "size")
	s.made++
	x := arenaEntry{testID(s.made), s.tick + shelfLife, bytes.Repeat([]byte{byte(s.made)}, size)}
	if err := s.kept.ring.AddNew(x.id, x.o, s.kept.dropAt(s.tick)); err != nil {
		t.Fatal(err)
	}
	s.row = append(s.row, x)
}

func (s *arenaModel) remove(t *rapid.T) {
	if len(s.row) == 0 {
		return
	}
	i := rapid.IntRange(0, len(s.row)-1).Draw(t, "place")
	x := s.row[i]
	if o, ok := s.kept.ring.Remove(x.id); !ok || !bytes.Equal(o, x.o) {
		t.Fatalf("%v removed: %v, %d bytes; want %d", x.id, ok, len(o), len(x.o))
	}
	if _, ok := s.kept.ring.Remove(x.id); ok {
		t.Fatalf("%v removed twice", x.id)
	}
	s.row = slices.Delete(slices.Clone(s.row), i, i+1)
}

func (s *arenaModel) turn(*rapid.T) {
	s.tick++
	s.kept.advance(s.tick)
	s.row = slices.DeleteFunc(slices.Clone(s.row), func(x arenaEntry) bool { return x.off <= s.tick })
}

func (s *arenaModel) take(*rapid.T) {
	s.shared.Add(1)
	s.photos = append(s.photos, arenaSnapshot{s.kept.snapshotChunks(), s.row})
}

// release releases all snapshots: from now on nothing need be copied.
func (s *arenaModel) release(t *rapid.T) {
	for _, p := range s.photos {
		same(t, p.chunks, p.row)
	}
	s.shared.Add(-int32(len(s.photos)))
	s.photos = nil
}

func (s *arenaModel) check(t *rapid.T) {
	var now []chunk
	n := 0
	for _, c := range s.kept.ring.Containers() {
		now = append(now, c.(*arena).chunks...)
		for id, o := range c.All() {
			if !bytes.Equal(o, s.row[n].o) || id != s.row[n].id {
				t.Fatalf("place %d has %v with %d bytes, want %v with %d", n, id, len(o), s.row[n].id, len(s.row[n].o))
			}
			n++
		}
	}
	if n != len(s.row) || s.kept.ring.Len() != n {
		t.Fatalf("%d are there, the belt says %d, want %d", n, s.kept.ring.Len(), len(s.row))
	}
	same(t, now, s.row)
	for i := range s.made {
		id := testID(i + 1)
		at := slices.IndexFunc(s.row, func(x arenaEntry) bool { return x.id == id })
		if o, _, ok := s.kept.ring.Get(id); ok != (at >= 0) || ok && !bytes.Equal(o, s.row[at].o) {
			t.Fatalf("%v is there: %v, with %d bytes; place %d in the row", id, ok, len(o), at)
		}
	}
	for _, p := range s.photos {
		same(t, p.chunks, p.row)
	}
}

// same checks that chunks hold a row, each within the ids that its chunk records.
func same(t *rapid.T, chunks []chunk, row []arenaEntry) {
	n := 0
	for i := range chunks {
		for s := range outcomesIn(chunks[i : i+1]) {
			if s.id.Compare(chunks[i].first) < 0 || s.id.Compare(chunks[i].last) > 0 {
				t.Fatalf("chunk %d says %v to %v, and has %v", i, chunks[i].first, chunks[i].last, s.id)
			}
			if s.removed {
				continue
			}
			if n == len(row) || s.id != row[n].id || !bytes.Equal(s.outcome, row[n].o) {
				t.Fatalf("place %d of %d has %v with %d bytes", n, len(row), s.id, len(s.outcome))
			}
			n++
		}
	}
	if n != len(row) {
		t.Fatalf("%d outcomes in the chunks, want %d", n, len(row))
	}
}

// TestArenas compares the belt with a row, and what snapshots share with the row as it was
// then.
func TestArenas(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := newArenaModel()
		t.Repeat(map[string]func(*rapid.T){
			"put": s.put, "and put": s.put, "and put again": s.put, "remove": s.remove, "turn": s.turn, "take": s.take, "release": s.release, "": s.check,
		})
	})
}

// TestArenaAsked: a place of nothing, of another outcome, or between two, has nothing.
func TestArenaAsked(t *testing.T) {
	a := &arena{sharing: &sharing{snapshots: new(atomic.Int32)}}
	first, second := a.Put(testID(1), outcome("one")), a.Put(testID(2), outcome("two"))
	for place := range uint64(4 * arenaEntryHeader) {
		for n := range uint64(3) {
			o, ok := a.Get(testID(n+1), place)
			if want := n == 0 && place == first || n == 1 && place == second; ok != want {
				t.Errorf("%q, %v at place %d under key %d", o, ok, place, n+1)
			}
			if ok {
				continue
			}
			if o, ok := a.Remove(testID(n+1), place); ok || a.Len() != 2 {
				t.Errorf("removed %q from place %d under key %d", o, place, n+1)
			}
		}
	}
	id := testID(3)
	inside := a.Put(testID(4), append(outcome{0xff, 0xff, 0, 0}, id[:]...)) + uint64(arenaEntryHeader)
	if o, ok := a.Get(id, inside); ok {
		t.Errorf("found %q, which would reach beyond its chunk", o)
	}
	if _, ok := a.Get(testID(1), 1<<chunkBits); ok {
		t.Error("found in a chunk that is not there")
	}
}
