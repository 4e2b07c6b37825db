package logstore

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"
)

// walker reads the trees of a bbolt file and checks everything that bbolt takes for granted: pages within the
// file, of the right kind, referenced once, keys in order within a page and between a page and its parents.
type walker struct {
	file string // for errors
	r    io.ReaderAt
	meta boltMeta
	seen []uint64 // bit per page
	used uint64   // pages referenced
	bufs [][]byte // one per level of the descent, reused
	deep int

	bucket string // for errors: the bucket being walked
}

// visit is called for every key of a bucket in order. The slices are valid during the call. A nested bucket
// comes with sub set and its header as value.
type visit func(key, value []byte, sub bool) error

// newWalker reads and checks the meta pages and the size of the file.
//
// Both meta pages must be valid. bbolt falls back to the older one, which silently undoes the last
// transaction, and raft may have acknowledged that. A crash does not damage a meta page: it is 80
// bytes in one sector.
func newWalker(file string, r io.ReaderAt, size int64) (*walker, error) {
	w := &walker{file: file, r: r}
	head := make([]byte, metaBytes+pageHeader)
	if err := readFull(r, head, 0); err != nil && !errors.Is(err, io.ErrUnexpectedEOF) {
		return nil, fmt.Errorf("read %s: %w", file, err)
	}
	m0, err0 := decodeMeta(head)
	if errors.Is(err0, errNotBolt) && !w.hasSecondMeta(size) {
		return nil, fmt.Errorf("%w: %s (%d bytes) is not a bbolt file; nothing was changed, check the path of the data directory", ErrNotLogStore, file, size)
	}
	if err0 != nil {
		return nil, w.metaErr(0, err0)
	}
	if err := readFull(r, head, int64(m0.pageSize)); err != nil {
		return nil, w.metaErr(1, err)
	}
	m1, err := decodeMeta(head)
	if err != nil {
		return nil, w.metaErr(1, err)
	}
	if w.meta = m0; m1.txid > m0.txid {
		w.meta = m1
	}
	switch {
	case m0.pageSize != m1.pageSize:
		return nil, w.metaErr(1, fmt.Errorf("page size %d, in page 0 it is %d", m1.pageSize, m0.pageSize))
	case m0.txid+1 != m1.txid && m1.txid+1 != m0.txid:
		return nil, w.metaErr(1, fmt.Errorf("transactions %d and %d do not follow each other: a write was lost", m0.txid, m1.txid))
	case w.meta.high > uint64(size)/uint64(m0.pageSize):
		return nil, w.corrupt(0, "", fmt.Errorf("the file was truncated: %d bytes, %d pages of %d are missing",
			size, w.meta.high-uint64(size)/uint64(m0.pageSize), w.meta.high))
	}
	w.seen = make([]uint64, w.meta.high/64+1)
	w.used = 2
	w.seen[0] = 3
	if w.meta.freelist != noFreelist {
		// The store never writes one (NoFreelistSync), and bbolt would trust it without a check.
		return nil, fmt.Errorf("%w: %s carries a list of free pages, so another program has written to it; nothing was changed", ErrNotLogStore, file)
	}
	return w, nil
}

// hasSecondMeta distinguishes a bbolt file whose first page was overwritten from a file of another
// kind.
func (w *walker) hasSecondMeta(size int64) bool {
	head := make([]byte, metaBytes+pageHeader)
	for at := int64(minPageSize); at <= maxPageSize && at < size; at *= 2 {
		if readFull(w.r, head, at) == nil {
			if _, err := decodeMeta(head); err == nil {
				return true
			}
		}
	}
	return false
}

func (w *walker) metaErr(n int, err error) error {
	if errors.Is(err, io.ErrUnexpectedEOF) {
		err = errors.New("the file ends before it")
	}
	return w.corrupt(0, "", fmt.Errorf("meta page %d, without which the last write may be missing: %w", n, err))
}

func (w *walker) corrupt(page uint64, key string, err error) error {
	return &CorruptError{File: w.file, Bucket: w.bucket, Key: key, Page: page, Reason: err.Error()}
}

// root walks the bucket of buckets.
func (w *walker) root(fn visit) error { return w.tree(w.meta.root, nil, nil, true, fn) }

// bucketAt walks the bucket whose header (and content, if it is small) is value.
func (w *walker) bucketAt(value []byte, fn visit) error {
	if len(value) < bucketHeader {
		return w.corrupt(0, "", errors.New("bucket header is too short"))
	}
	if root := order.Uint64(value); root != 0 {
		return w.tree(root, nil, nil, true, fn)
	}
	p, err := parsePage(0, value[bucketHeader:])
	if err == nil && !p.leaf {
		err = errors.New("embedded bucket is not a leaf")
	}
	if err != nil {
		return w.corrupt(0, "", err)
	}
	return w.leaf(&p, nil, nil, fn)
}

// tree walks the page and everything below it. Its keys must lie in [low, high); nil is no bound.
func (w *walker) tree(id uint64, low, high []byte, top bool, fn visit) error {
	if w.deep >= maxDepth {
		return w.corrupt(id, "", errors.New("the tree is too deep"))
	}
	p, err := w.load(id)
	if err != nil {
		return err
	}
	w.deep++
	defer func() { w.deep-- }()

	if p.leaf {
		if p.n == 0 && !top {
			return w.corrupt(id, "", errors.New("empty page within a tree"))
		}
		return w.leaf(&p, low, high, fn)
	}
	for i := range p.n {
		key, next := p.key(i), high
		if i+1 < p.n {
			next = p.key(i + 1)
		}
		if err := w.bounds(&p, key, low, high); err != nil {
			return err
		}
		if err := w.tree(p.child(i), key, next, false, fn); err != nil {
			return err
		}
	}
	return nil
}

func (w *walker) leaf(p *page, low, high []byte, fn visit) error {
	for i := range p.n {
		key := p.key(i)
		if err := w.bounds(p, key, low, high); err != nil {
			return err
		}
		flags := p.flags(i)
		if flags&^flagBucket != 0 {
			return w.corrupt(p.id, "", fmt.Errorf("element flags %#x", flags))
		}
		if err := fn(key, p.value(i), flags == flagBucket); err != nil {
			return err
		}
	}
	return nil
}

func (w *walker) bounds(p *page, key, low, high []byte) error {
	if low != nil && bytes.Compare(key, low) < 0 || high != nil && bytes.Compare(key, high) >= 0 {
		return w.corrupt(p.id, "", errors.New("a key lies outside of the range of its page"))
	}
	return nil
}

// load reads a page with its overflow and marks it as referenced.
func (w *walker) load(id uint64) (page, error) {
	if id < 2 || id >= w.meta.high {
		return page{}, w.corrupt(id, "", fmt.Errorf("not one of the %d pages of the file", w.meta.high))
	}
	for len(w.bufs) <= w.deep {
		w.bufs = append(w.bufs, make([]byte, w.meta.pageSize))
	}
	size := w.meta.pageSize
	buf := w.bufs[w.deep][:size]
	if err := readFull(w.r, buf, int64(id)*int64(size)); err != nil {
		return page{}, fmt.Errorf("read page %d of %s: %w", id, w.file, err)
	}
	over := uint64(order.Uint32(buf[12:]))
	if id+over >= w.meta.high || (over+1)*uint64(size) > maxRunBytes {
		return page{}, w.corrupt(id, "", fmt.Errorf("%d overflow pages", over))
	}
	if run := int(over+1) * size; run > len(buf) {
		grown := slices.Grow(buf, run-size)[:run]
		if err := readFull(w.r, grown[size:], int64(id+1)*int64(size)); err != nil {
			return page{}, fmt.Errorf("read page %d of %s: %w", id, w.file, err)
		}
		w.bufs[w.deep], buf = grown, grown
	}
	for n := id; n <= id+over; n++ {
		if w.seen[n/64]&(1<<(n%64)) != 0 {
			return page{}, w.corrupt(n, "", errors.New("referenced twice"))
		}
		w.seen[n/64] |= 1 << (n % 64)
	}
	w.used += over + 1
	p, err := parsePage(id, buf)
	if err != nil {
		return page{}, w.corrupt(id, "", err)
	}
	return p, nil
}
