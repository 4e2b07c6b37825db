package wal

import (
	"encoding/binary"
	"hash/crc32"
	"math/bits"
)

// condition is what is known of the frame at a place.
type condition int

const (
	whole   condition = iota
	torn              // no whole frame: the end of the log, unless a whole frame stands behind it
	flipped           // a whole frame but for one bit
)

// conditionOfHeader tells a header of which one bit is flipped from bytes that are no header. The IEEE checksum of what
// follows confirms it: a torn write may lack a sector in which the header differs by one bit from what was there.
func conditionOfHeader(b []byte, nonce uint64, at int64) condition {
	var c [frameHeader]byte
	copy(c[:], b[at:])
	for i := 4 * 8; i < frameHeader*8; i++ {
		c[i/8] ^= 1 << (i % 8)
		if validHeader(c[:], nonce, at, int64(len(b))) {
			rest := b[at+frameHeader : at+frameBytes(int(binary.BigEndian.Uint32(c[8:])))]
			if crc32.ChecksumIEEE(rest) == binary.BigEndian.Uint32(c[36:]) {
				return flipped
			}
			return torn
		}
		c[i/8] ^= 1 << (i % 8)
	}
	return torn
}

// conditionOfFrame tells a frame of which one bit is flipped from a torn one. Its header is valid; its checksum differs
// from the stored one. The IEEE checksum confirms the bit that the difference points at: otherwise one in 500 torn
// frames of a MiB would pass for damaged.
func conditionOfFrame(frame []byte, difference uint32) condition {
	rest := frame[frameHeader:]
	want := binary.BigEndian.Uint32(frame[36:])
	bit, ok := oneBit(difference, len(frame)-4)
	switch bit -= (frameHeader - 4) * 8; {
	case !ok:
		return torn
	case bit < 0: // in the checksum itself: the header is valid
		if crc32.ChecksumIEEE(rest) == want {
			return flipped
		}
		return torn
	}
	rest[bit/8] ^= 1 << (bit % 8)
	defer func() { rest[bit/8] ^= 1 << (bit % 8) }()
	if crc32.ChecksumIEEE(rest) != want {
		return torn
	}
	return flipped
}

// oneBit returns which bit of n bytes, or of the checksum before them (negative), has to be flipped to
// make up the difference of two checksums, the computed one and the stored one. What a bit makes of a
// checksum depends only on how many bits follow it, and is another difference for each.
func oneBit(difference uint32, n int) (bit int, ok bool) {
	if bits.OnesCount32(difference) == 1 {
		return -1, true
	}
	d := uint32(crc32.Castagnoli)
	for i := n*8 - 1; i >= 0; i-- {
		if d == difference {
			return i, true
		}
		d = d>>1 ^ crc32.Castagnoli&-(d&1)
	}
	return 0, false
}
