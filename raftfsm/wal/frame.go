package wal

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"slices"
)

// A frame is one append, all numbers big endian. Frames begin at multiples of 8.
//
//	 0  4  CRC32C of all that follows
//	 4  4  CRC32C of the header from 8 on, so that a length can be relied on
//	 8  4  length of the body
//	12  1  kind
//	13  3  zero
//	16  4  group of transactions: zero, there is one
//	20  4  place in the segment, divided by 8
//	24  8  nonce of the segment
//	32  4  CRC32C of the frame before
//	36  4  CRC32 (IEEE) of all from 56 on
//	40  8  commit index
//	48  8  index: see Kind
//	56     body, and zeros to a multiple of 8
//	    8  nonce of the segment
//
// The nonce is random, so that no entry can contain a frame. At the end it makes sure that a torn write, which lacks
// at least the last bytes or a whole sector, lacks more than one bit (unless the sector is in the middle, and holds one).
const (
	frameHeader  = 56
	frameTrailer = 8
	alignment    = 8
)

// MaxBody is the longest body of a frame, in bytes.
const MaxBody = 1 << 30

// Kind is what a frame says.
type Kind byte

// The kinds of frames.
const (
	Entries  Kind = iota + 1 // entries from Index on
	Deletion                 // the entries from Index on are gone, up to that in the body (8 bytes)
	turn                     // the log goes on in the segment with number Index; the body is its nonce
	head                     // the segments before number Index are not needed
)

// String returns the name of the kind, for errors.
func (k Kind) String() string {
	switch k {
	case Entries:
		return "entries"
	case Deletion:
		return "deletion"
	case turn:
		return "turn"
	case head:
		return "head"
	}
	return fmt.Sprintf("kind %d", byte(k))
}

// Frame is one append. The log does not look into the body.
type Frame struct {
	Kind          Kind
	Commit, Index uint64
	Body          []byte
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

func align(n int64) int64 { return (n + alignment - 1) &^ (alignment - 1) }

// frameBytes is what a frame with a body of n bytes takes in a segment.
func frameBytes(n int) int64 { return align(frameHeader+int64(n)) + frameTrailer }

// encode returns a frame and its checksum. It uses the capacity of b.
func (f *Frame) encode(b []byte, nonce uint64, at int64, before uint32) ([]byte, uint32) {
	b = slices.Grow(b[:0], int(frameBytes(len(f.Body))))[:frameHeader]
	clear(b)
	b = append(b, f.Body...)
	for len(b)%alignment != 0 {
		b = append(b, 0)
	}
	b = binary.BigEndian.AppendUint64(b, nonce)

	binary.BigEndian.PutUint32(b[8:], uint32(len(f.Body)))
	b[12] = byte(f.Kind)
	binary.BigEndian.PutUint32(b[20:], uint32(at/alignment))
	binary.BigEndian.PutUint64(b[24:], nonce)
	binary.BigEndian.PutUint32(b[32:], before)
	binary.BigEndian.PutUint32(b[36:], crc32.ChecksumIEEE(b[frameHeader:]))
	binary.BigEndian.PutUint64(b[40:], f.Commit)
	binary.BigEndian.PutUint64(b[48:], f.Index)
	binary.BigEndian.PutUint32(b[4:], crc32.Checksum(b[8:frameHeader], castagnoli))
	sum := crc32.Checksum(b[4:], castagnoli)
	binary.BigEndian.PutUint32(b, sum)
	return b, sum
}

// decoded is what stands at a place of a segment.
type decoded struct {
	Frame  // of a whole frame; its body points into the segment
	sum    uint32
	before uint32 // checksum of the frame before it
	group  uint32
	state  condition
}

// decode reads the frame at a place of a segment.
func decode(b []byte, nonce uint64, at int64) decoded {
	if int64(len(b))-at < frameHeader {
		return decoded{state: torn}
	}
	h := b[at : at+frameHeader]
	if !validHeader(h, nonce, at, int64(len(b))) {
		return decoded{state: conditionOfHeader(b, nonce, at)}
	}
	n := binary.BigEndian.Uint32(h[8:])
	all := b[at : at+frameBytes(int(n))]
	sum := crc32.Checksum(all[4:], castagnoli)
	if difference := sum ^ binary.BigEndian.Uint32(all); difference != 0 {
		return decoded{state: conditionOfFrame(all, difference)}
	}
	return decoded{
		Frame:  Frame{Kind: Kind(h[12]), Commit: binary.BigEndian.Uint64(h[40:]), Index: binary.BigEndian.Uint64(h[48:]), Body: all[frameHeader : frameHeader+int(n)]},
		sum:    sum,
		before: binary.BigEndian.Uint32(h[32:]),
		group:  binary.BigEndian.Uint32(h[16:]),
		state:  whole,
	}
}

func validHeader(h []byte, nonce uint64, at, size int64) bool {
	return binary.BigEndian.Uint64(h[24:]) == nonce && int64(binary.BigEndian.Uint32(h[20:]))*alignment == at &&
		binary.BigEndian.Uint32(h[4:]) == crc32.Checksum(h[8:frameHeader], castagnoli) &&
		at+frameBytes(int(binary.BigEndian.Uint32(h[8:]))) <= size
}
