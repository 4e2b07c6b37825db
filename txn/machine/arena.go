package machine

import (
	"encoding/binary"
	"iter"
	"slices"

	"github.com/txmgr/txmgr/timeout/hashbelt"
	"github.com/txmgr/txmgr/txn"
)

// An outcome in an arena is stored as the length of its encoding with its removal mark, its id,
// and the encoding. Its place is the number of its chunk and the offset in that.
const (
	chunkSize        = 64 << 10 // a chunk is larger only if its one outcome is
	chunkBits        = 16
	arenaEntryHeader = 4 + len(txn.ID{})
	removedBit       = 1 << 31
)

// chunk is a piece of an arena. Its bytes are appended to and never changed, but for the marks
// of removed outcomes: these are set on a copy while a snapshot shares the bytes.
type chunk struct {
	epoch       uint64 // when these bytes were made or copied
	bytes       []byte
	first, last txn.ID // of all ids that were put in, in the order of ids
}

// arena is a container of a hashbelt: outcomes one after the other, in chunks without pointers.
type arena struct {
	chunks  []chunk
	count   int
	sharing *sharing
}

var _ hashbelt.Container[txn.ID, outcome] = (*arena)(nil)

// Put appends an outcome. The first chunk grows as it needs, so that an arena of one outcome is small.
func (a *arena) Put(id txn.ID, o outcome) (place uint64) {
	n, size := len(a.chunks), arenaEntryHeader+len(o)
	if n == 0 || len(a.chunks[n-1].bytes)+size > chunkSize {
		c := chunk{epoch: a.sharing.epoch}
		if n > 0 {
			c.bytes = make([]byte, 0, max(chunkSize, size))
		}
		a.chunks = append(a.chunks, c)
		n++
	}
	c := &a.chunks[n-1]
	if len(c.bytes) == 0 || id.Compare(c.first) < 0 {
		c.first = id
	}
	if id.Compare(c.last) > 0 {
		c.last = id
	}
	place = uint64(n-1)<<chunkBits | uint64(len(c.bytes))
	c.bytes = binary.LittleEndian.AppendUint32(c.bytes, uint32(len(o)))
	c.bytes = append(append(c.bytes, id[:]...), o...)
	a.count++
	return place
}

// Get returns the outcome at place, which shares the arena's bytes.
func (a *arena) Get(id txn.ID, place uint64) (outcome, bool) {
	n, at := place>>chunkBits, place&(1<<chunkBits-1)
	if n >= uint64(len(a.chunks)) {
		return nil, false
	}
	b := a.chunks[n].bytes
	if at+uint64(arenaEntryHeader) > uint64(len(b)) || txn.ID(b[at+4:]) != id {
		return nil, false
	}
	size := binary.LittleEndian.Uint32(b[at:])
	from := at + uint64(arenaEntryHeader)
	if size&removedBit != 0 || uint64(size) > uint64(len(b))-from {
		return nil, false
	}
	return b[from : from+uint64(size) : from+uint64(size)], true
}

// Remove marks an outcome as removed. Its bytes stay until the whole arena is dropped.
func (a *arena) Remove(id txn.ID, place uint64) (outcome, bool) {
	o, ok := a.Get(id, place)
	if !ok {
		return nil, false
	}
	c := &a.chunks[place>>chunkBits]
	if c.epoch != a.sharing.epoch {
		if a.sharing.snapshots.Load() > 0 {
			c.bytes = slices.Clone(c.bytes)
		}
		c.epoch = a.sharing.epoch
	}
	binary.LittleEndian.PutUint32(c.bytes[place&(1<<chunkBits-1):], uint32(len(o))|removedBit)
	a.count--
	return o, true
}

// All yields the outcomes in the order in which they were put in.
func (a *arena) All() iter.Seq2[txn.ID, outcome] {
	return func(yield func(txn.ID, outcome) bool) {
		for o := range outcomesIn(a.chunks) {
			if !o.removed && !yield(o.id, o.outcome) {
				return
			}
		}
	}
}

func (a *arena) Len() int { return a.count }

// storedOutcome is an outcome with its place in the arena.
type storedOutcome struct {
	id      txn.ID
	outcome outcome
	removed bool
}

// outcomesIn yields the outcomes in chunks.
func outcomesIn(chunks []chunk) iter.Seq[storedOutcome] {
	return func(yield func(storedOutcome) bool) {
		for i := range chunks {
			for b := chunks[i].bytes; len(b) > 0; {
				head := binary.LittleEndian.Uint32(b)
				s := storedOutcome{id: txn.ID(b[4:]), removed: head&removedBit != 0}
				b = b[arenaEntryHeader:]
				n := head &^ removedBit
				s.outcome, b = b[:n:n], b[n:]
				if !yield(s) {
					return
				}
			}
		}
	}
}
