package slab

import (
	"encoding/binary"
	"sync/atomic"
)

// StringRef names a stored byte string of any length; the zero ref is the empty string.
type StringRef uint32

// Cell is a piece of a byte string: its bytes and the next piece. The first
// piece begins with the length.
type Cell struct {
	next uint32
	data [28]byte
}

// Strings keeps byte strings in cells, which the garbage collector need not scan.
type Strings struct{ Slab[Cell] }

// StringPages is the readable part of [Strings].
type StringPages Pages[Cell]

// NewStrings is [New] for strings.
func NewStrings(shared *atomic.Int32) Strings { return Strings{New[Cell](shared)} }

// Pages returns the present pages, for reading.
func (t *Strings) Pages() *StringPages { return (*StringPages)(&t.Slab.Pages) }

// Share is [Slab.Share].
func (t *Strings) Share() StringPages { return StringPages(t.Slab.Share()) }

func (p *StringPages) at(i uint32) *Cell { return (*Pages[Cell])(p).At(i) }

// Store keeps a copy of s.
func Store[S string | []byte](t *Strings, s S) StringRef {
	if len(s) == 0 {
		return 0
	}
	first := t.Take()
	c := t.Edit(first)
	n := binary.PutUvarint(c.data[:], uint64(len(s)))
	s = s[copy(c.data[n:], s):]
	for len(s) > 0 {
		// Take may make a block but moves none, so c stays where it is.
		c.next = t.Take()
		c = t.Edit(c.next)
		s = s[copy(c.data[:], s):]
	}
	return StringRef(first)
}

// Drop gives the cells of x back.
func (t *Strings) Drop(x StringRef) {
	for i := uint32(x); i != 0; {
		next := t.At(i).next
		t.Give(i)
		i = next
	}
}

// Append appends the bytes of x to dst.
func (p *StringPages) Append(dst []byte, x StringRef) []byte {
	if x == 0 {
		return dst
	}
	c := p.at(uint32(x))
	left, n := binary.Uvarint(c.data[:])
	for from := n; ; from = 0 {
		piece := c.data[from:]
		if uint64(len(piece)) >= left {
			return append(dst, piece[:left]...)
		}
		dst = append(dst, piece...)
		left -= uint64(len(piece))
		c = p.at(c.next)
	}
}

// AppendSized appends the length of x, and its bytes.
func (p *StringPages) AppendSized(dst []byte, x StringRef) []byte {
	if x == 0 {
		return append(dst, 0)
	}
	c := p.at(uint32(x))
	size, _ := binary.Uvarint(c.data[:])
	return p.Append(binary.AppendUvarint(dst, size), x)
}

// Head returns the bytes of x that are in its first cell: the first 26 at least, or all. The caller must not change them.
func (p *StringPages) Head(x StringRef) []byte {
	c := p.at(uint32(x))
	_, n := binary.Uvarint(c.data[:])
	return c.data[n:]
}

// Equal compares without copying x out of its cells.
func (p *StringPages) Equal(x StringRef, s []byte) bool {
	if x == 0 {
		return len(s) == 0
	}
	c := p.at(uint32(x))
	size, n := binary.Uvarint(c.data[:])
	if size != uint64(len(s)) {
		return false
	}
	for from := n; ; from = 0 {
		piece := c.data[from:]
		if len(piece) >= len(s) {
			return string(piece[:len(s)]) == string(s)
		}
		if string(piece) != string(s[:len(piece)]) {
			return false
		}
		s = s[len(piece):]
		c = p.at(c.next)
	}
}
