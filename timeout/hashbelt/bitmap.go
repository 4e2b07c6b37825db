package hashbelt

import "math/bits"

// bitmap has a bit for each place of a ring, set if the place is occupied.
type bitmap []uint64

func newBitmap(places int) bitmap { return make(bitmap, (places+63)/64) }

func (m bitmap) set(i int)   { m[i/64] |= 1 << (i % 64) }
func (m bitmap) unset(i int) { m[i/64] &^= 1 << (i % 64) }

// from returns the first marked place at or behind i, or false if there is none up to the last.
func (m bitmap) from(i int) (int, bool) {
	mask := ^uint64(0) << (i % 64)
	for w := i / 64; w < len(m); w++ {
		if word := m[w] & mask; word != 0 {
			return w*64 + bits.TrailingZeros64(word), true
		}
		mask = ^uint64(0)
	}
	return 0, false
}
