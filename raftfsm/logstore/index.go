package logstore

import (
	"github.com/txmgr/txmgr/raftfsm/wal"
)

// index says where the entries of the log are: spans of consecutive entries, in order, none empty. There is more than
// one after raft has installed a snapshot.
type index struct {
	spans []span
}

type span struct {
	first  uint64
	places []place
}

func (s *span) last() uint64 { return s.first + uint64(len(s.places)) - 1 }

// place is where the stored form of an entry is.
type place struct {
	frame    wal.Position
	at, size uint32 // in the body of the frame
}

// bounds returns the lowest and the highest index, 0 for an empty log.
func (x *index) bounds() (first, last uint64) {
	if len(x.spans) == 0 {
		return 0, 0
	}
	return x.spans[0].first, x.spans[len(x.spans)-1].last()
}

func (x *index) count() (n uint64) {
	for i := range x.spans {
		n += uint64(len(x.spans[i].places))
	}
	return n
}

func (x *index) find(index uint64) (place, bool) {
	for i := len(x.spans) - 1; i >= 0; i-- {
		if s := &x.spans[i]; index >= s.first {
			if index > s.last() {
				return place{}, false
			}
			return s.places[index-s.first], true
		}
	}
	return place{}, false
}

// oldest returns the first place in the log, which is the oldest one: entries are appended in the order of their
// indices.
func (x *index) oldest() wal.Position {
	if len(x.spans) == 0 {
		return wal.Position{}
	}
	return x.spans[0].places[0].frame
}

// add appends entries from an index on, which comes after all others.
func (x *index) add(first uint64, places []place) {
	if _, last := x.bounds(); len(x.spans) == 0 || last+1 != first {
		x.spans = append(x.spans, span{first: first})
	}
	s := &x.spans[len(x.spans)-1]
	s.places = append(s.places, places...)
}

// without returns the index without the entries from low to high. It shares memory with x, which must not be added to
// any more.
func (x *index) without(low, high uint64) (left index) {
	for _, s := range x.spans {
		if low > s.last() || high < s.first {
			left.spans = append(left.spans, s)
			continue
		}
		if low > s.first {
			left.spans = append(left.spans, span{s.first, s.places[:low-s.first]})
		}
		if high < s.last() {
			left.spans = append(left.spans, span{high + 1, s.places[high+1-s.first:]})
		}
	}
	return left
}
