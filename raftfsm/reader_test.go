package raftfsm

import (
	"encoding/binary"
	"errors"
	"testing"
)

// TestCutNumber: a number of eight bytes that is cut short is a fault, not a zero.
func TestCutNumber(t *testing.T) {
	eight := binary.LittleEndian.AppendUint64(nil, 1<<63+5)
	for n := range 9 {
		r := newReader(eight[:n])
		v := r.fixed64()
		if n == 8 {
			if v != 1<<63+5 || r.err != nil || r.remaining() != 0 {
				t.Errorf("whole: %d, %v, %d bytes left", v, r.err, r.remaining())
			}
			continue
		}
		if v != 0 || !errors.Is(r.err, ErrCorrupt) {
			t.Errorf("%d bytes: %d, %v; want ErrCorrupt", n, v, r.err)
		}
	}
}

// TestCountAtItsLimit: a count may be the limit, and no more; nor more than the bytes that follow
// have room for.
func TestCountAtItsLimit(t *testing.T) {
	for _, c := range []struct {
		count, bytes int
		ok           bool
	}{{0, 0, true}, {4, 8, true}, {5, 10, true}, {6, 12, false}, {5, 9, false}} {
		r := newReader(append(binary.AppendUvarint(nil, uint64(c.count)), make([]byte, c.bytes)...))
		n := r.atMost(5, 2)
		if c.ok != (r.err == nil) || c.ok && n != c.count || !c.ok && n != 0 {
			t.Errorf("%d elements in %d bytes, at most 5 of 2: %d, %v", c.count, c.bytes, n, r.err)
		}
	}
}
