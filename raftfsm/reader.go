package raftfsm

import (
	"encoding/binary"
	"fmt"
	"math"
	"time"
)

// reader decodes values from the front of encoded bytes. The first fault persists: from then on
// every method returns zero, so that callers check err once, at the end.
type reader struct {
	data []byte
	// text is a copy of data: strings are cut from it, which costs one allocation for all of them
	// and needs no unsafe.
	text string
	at   int
	err  error
}

func newReader(data []byte) reader { return reader{data: data, text: string(data)} }

func (r *reader) remaining() int { return len(r.data) - r.at }

func (r *reader) fail(format string, args ...any) {
	if r.err == nil {
		r.err = fmt.Errorf("%w: byte %d: %s", ErrCorrupt, r.at, fmt.Sprintf(format, args...))
		r.at = len(r.data)
	}
}

func (r *reader) byte() byte {
	if r.remaining() == 0 {
		r.fail("cut short")
		return 0
	}
	b := r.data[r.at]
	r.at++
	return b
}

func (r *reader) flag() bool {
	b := r.byte()
	if b > 1 {
		r.fail("%d is neither false nor true", b)
	}
	return b == 1
}

func (r *reader) uvarint() uint64 {
	if r.at < len(r.data) && r.data[r.at] < 0x80 {
		r.at++
		return uint64(r.data[r.at-1])
	}
	v, n := binary.Uvarint(r.data[r.at:])
	if n <= 0 {
		r.fail("no number of at most 64 bits")
		return 0
	}
	r.at += n
	return v
}

// number reads a signed number in the zig-zag form.
func (r *reader) number() int64 {
	v := r.uvarint()
	return int64(v>>1) ^ -int64(v&1)
}

func (r *reader) duration() time.Duration { return time.Duration(r.number()) }

func (r *reader) uint32() uint32 {
	v := r.uvarint()
	if v > math.MaxUint32 {
		r.fail("%d does not fit 32 bits", v)
		return 0
	}
	return uint32(v)
}

func (r *reader) fixed64() uint64 {
	if r.remaining() < 8 {
		r.fail("cut short")
		return 0
	}
	r.at += 8
	return binary.LittleEndian.Uint64(r.data[r.at-8:])
}

// count reads the number of elements that follow. It is checked against the bytes that are left, of
// which every element takes at least size, before anything is allocated for them.
func (r *reader) count(size int) int {
	n := r.uvarint()
	if n > uint64(r.remaining()/size) {
		r.fail("%d elements cannot fit the %d bytes that are left", n, r.remaining())
		return 0
	}
	return int(n)
}

func (r *reader) string() string {
	n := r.count(1)
	r.at += n
	return r.text[r.at-n : r.at]
}

// bytes returns a part of data itself, nil when it is empty.
func (r *reader) bytes() []byte {
	n := r.count(1)
	if n == 0 {
		return nil
	}
	r.at += n
	return r.data[r.at-n : r.at : r.at]
}

func (r *reader) id() (id [16]byte) {
	if r.remaining() < len(id) {
		r.fail("cut short")
		return id
	}
	copy(id[:], r.data[r.at:])
	r.at += len(id)
	return id
}

func (r *reader) hash() (sum [32]byte) {
	if r.remaining() < len(sum) {
		r.fail("cut short")
		return sum
	}
	copy(sum[:], r.data[r.at:])
	r.at += len(sum)
	return sum
}

// end is the last read: nothing may be left after it.
func (r *reader) end() error {
	if r.remaining() > 0 {
		r.fail("%d bytes too many", r.remaining())
	}
	return r.err
}
