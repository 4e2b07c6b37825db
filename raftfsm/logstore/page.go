package logstore

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
)

// The file format of bbolt (version 2), as far as reading needs it. bbolt itself walks the mapped
// file without checks: on a damaged or truncated one it panics or dies of SIGBUS, the latter in a
// goroutine of its own (the scan for free pages), where it cannot be recovered. So the file is
// walked here first, by read, and bbolt opens only files that passed. Numbers are in the byte order
// of the machine, as bbolt writes them.
const (
	boltMagic   = 0xED0CDAED
	boltVersion = 2

	pageHeader   = 16 // id 8, flags 2, count 2, overflow 4
	elementSize  = 16 // leaf: flags, pos, ksize, vsize; branch: pos, ksize, pgid 8
	bucketHeader = 16 // root 8, sequence 8
	metaBytes    = 64 // magic 4, version 4, page size 4, flags 4, root 16, freelist 8, high 8, txid 8, checksum 8

	flagBranch  = 0x01
	flagLeaf    = 0x02
	flagBucket  = 0x01 // of a leaf element
	noFreelist  = ^uint64(0)
	minPageSize = 1 << 10
	maxPageSize = 1 << 20

	// maxRunBytes bounds one page with its overflow: bbolt keeps up to four values together, however large.
	maxRunBytes = 4*(MaxEntryBytes+entryHeader+elementSize+8) + maxPageSize

	// maxDepth bounds the descent; a tree of minimal pages this deep would fill the disk many times over.
	maxDepth = 48
)

var order = binary.NativeEndian

// boltMeta is one of the two meta pages.
type boltMeta struct {
	pageSize int
	root     uint64 // page of the root bucket
	freelist uint64
	high     uint64 // number of pages in use or free; the pages from there on were never written
	txid     uint64
}

// errNotBolt: the bytes are not a bbolt meta page, not even a damaged one.
var errNotBolt = errors.New("no bbolt magic")

func decodeMeta(b []byte) (boltMeta, error) {
	if len(b) < metaBytes+pageHeader || order.Uint32(b[pageHeader:]) != boltMagic {
		return boltMeta{}, errNotBolt
	}
	b = b[pageHeader:]
	sum := fnv.New64a()
	sum.Write(b[:metaBytes-8])
	if sum.Sum64() != order.Uint64(b[metaBytes-8:]) {
		return boltMeta{}, errChecksum
	}
	if v := order.Uint32(b[4:]); v != boltVersion {
		return boltMeta{}, fmt.Errorf("bbolt file format %d, only %d is known", v, boltVersion)
	}
	m := boltMeta{
		pageSize: int(order.Uint32(b[8:])),
		root:     order.Uint64(b[16:]),
		freelist: order.Uint64(b[32:]),
		high:     order.Uint64(b[40:]),
		txid:     order.Uint64(b[48:]),
	}
	if m.pageSize < minPageSize || m.pageSize > maxPageSize || m.pageSize&(m.pageSize-1) != 0 {
		return boltMeta{}, fmt.Errorf("page size %d", m.pageSize)
	}
	return m, nil
}

// page is one page with its overflow, checked to be self-consistent as far as its own bytes go.
type page struct {
	id   uint64
	data []byte // header, elements, keys and values
	leaf bool
	n    int
}

// parsePage checks the header and every element's bounds.
func parsePage(id uint64, data []byte) (page, error) {
	if len(data) < pageHeader {
		return page{}, errShort
	}
	if got := order.Uint64(data); got != id {
		return page{}, fmt.Errorf("the page calls itself %d", got)
	}
	p := page{id: id, data: data, n: int(order.Uint16(data[10:]))}
	switch flags := order.Uint16(data[8:]); flags {
	case flagLeaf:
		p.leaf = true
	case flagBranch:
		if p.n == 0 {
			return page{}, errors.New("branch without children")
		}
	default:
		return page{}, fmt.Errorf("flags %#x are neither leaf nor branch", flags)
	}
	table := pageHeader + p.n*elementSize
	if table > len(data) {
		return page{}, fmt.Errorf("%d elements do not fit", p.n)
	}
	var last []byte
	for i := range p.n {
		from, ksize, vsize := p.element(i)
		if ksize == 0 || from < uint64(table) || from+ksize+vsize > uint64(len(data)) {
			return page{}, fmt.Errorf("element %d is out of bounds", i)
		}
		key := p.key(i)
		if i > 0 && bytes.Compare(last, key) >= 0 {
			return page{}, fmt.Errorf("element %d is out of order", i)
		}
		last = key
	}
	return p, nil
}

// element returns where the i-th key begins, and the sizes of key and value. Each is below 2^33, so sums cannot
// overflow.
func (p *page) element(i int) (from, ksize, vsize uint64) {
	at := pageHeader + i*elementSize
	e := p.data[at:]
	if p.leaf {
		return uint64(at) + uint64(order.Uint32(e[4:])), uint64(order.Uint32(e[8:])), uint64(order.Uint32(e[12:]))
	}
	return uint64(at) + uint64(order.Uint32(e)), uint64(order.Uint32(e[4:])), 0
}

func (p *page) key(i int) []byte {
	from, ksize, _ := p.element(i)
	return p.data[from : from+ksize]
}

func (p *page) value(i int) []byte {
	from, ksize, vsize := p.element(i)
	return p.data[from+ksize : from+ksize+vsize]
}

// child returns the page below the i-th element of a branch.
func (p *page) child(i int) uint64 { return order.Uint64(p.data[pageHeader+i*elementSize+8:]) }

// flags returns the flags of the i-th element of a leaf.
func (p *page) flags(i int) uint32 { return order.Uint32(p.data[pageHeader+i*elementSize:]) }

// readFull reads exactly len(b) bytes; the end of the file in between is io.ErrUnexpectedEOF.
func readFull(r io.ReaderAt, b []byte, at int64) error {
	n, err := r.ReadAt(b, at)
	if n == len(b) {
		return nil
	}
	if err == nil || errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}
