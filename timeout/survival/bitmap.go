package survival

import "math/bits"

// ringSize is the number of ticks whose groups are found by position: 13 minutes and 39 seconds at an interval of 100 ms.
const ringSize = 1 << 13

// bitmap marks the slots of the ring that hold a group. A summary marks the words that are not zero, so the next marked
// slot is found without looking at the empty ones.
type bitmap struct {
	summary [ringSize / 64 / 64]uint64
	words   [ringSize / 64]uint64
}

func (b *bitmap) set(slot uint32) {
	w := slot % ringSize / 64
	b.words[w] |= 1 << (slot % 64)
	b.summary[w/64] |= 1 << (w % 64)
}

// setPage marks the slots of a page that starts at slot.
func (b *bitmap) setPage(slot uint32, mask uint16) {
	w := slot % ringSize / 64
	b.words[w] |= uint64(mask) << (slot % 64)
	b.summary[w/64] |= 1 << (w % 64)
}

func (b *bitmap) clear(slot uint32) {
	w := slot % ringSize / 64
	b.words[w] &^= 1 << (slot % 64)
	if b.words[w] == 0 {
		b.summary[w/64] &^= 1 << (w % 64)
	}
}

// next returns the first marked slot at or after from, going round once.
func (b *bitmap) next(from uint32) (uint32, bool) {
	w := from % ringSize / 64
	if rest := b.words[w] >> (from % 64); rest != 0 {
		return from + uint32(bits.TrailingZeros64(rest)), true
	}
	// The word of from is looked at again at the end of the round: only slots before from can be marked in it by now.
	s := w / 64
	if rest := b.summary[s] &^ (2<<(w%64) - 1); rest != 0 {
		return b.first(s, rest), true
	}
	for range b.summary {
		s = (s + 1) % uint32(len(b.summary))
		if b.summary[s] != 0 {
			return b.first(s, b.summary[s]), true
		}
	}
	return 0, false
}

// first returns the first slot of the first word that summary word s, reduced to rest, marks.
func (b *bitmap) first(s uint32, rest uint64) uint32 {
	w := s*64 + uint32(bits.TrailingZeros64(rest))
	return w*64 + uint32(bits.TrailingZeros64(b.words[w]))
}
