package machine

import "encoding/binary"

// stringRef names a stored byte string of any length; the zero ref is the empty string.
type stringRef uint32

// stringCell is a piece of a byte string: its bytes and the next piece. The first
// piece begins with the length.
type stringCell struct {
	next uint32
	data [28]byte
}

// stringPool keeps byte strings in cells, which the garbage collector need not scan.
type stringPool struct{ slab[stringCell] }

func storeString[S string | []byte](t *stringPool, s S) stringRef {
	if len(s) == 0 {
		return 0
	}
	first := t.take()
	c := t.edit(first)
	n := binary.PutUvarint(c.data[:], uint64(len(s)))
	s = s[copy(c.data[n:], s):]
	for len(s) > 0 {
		// take may make a block but moves none, so c stays where it is.
		c.next = t.take()
		c = t.edit(c.next)
		s = s[copy(c.data[:], s):]
	}
	return stringRef(first)
}

func (t *stringPool) drop(x stringRef) {
	for i := uint32(x); i != 0; {
		next := t.at(i).next
		t.give(i)
		i = next
	}
}

// appendStored appends the bytes of x to dst.
func appendStored(dst []byte, p *pages[stringCell], x stringRef) []byte {
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

// appendSized appends the length of x, and its bytes.
func appendSized(dst []byte, p *pages[stringCell], x stringRef) []byte {
	if x == 0 {
		return append(dst, 0)
	}
	c := p.at(uint32(x))
	size, _ := binary.Uvarint(c.data[:])
	return appendStored(binary.AppendUvarint(dst, size), p, x)
}

// equalStored compares without copying x out of its cells.
func equalStored(p *pages[stringCell], x stringRef, s []byte) bool {
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
