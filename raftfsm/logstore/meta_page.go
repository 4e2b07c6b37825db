package logstore

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
)

// A bbolt file begins with two meta pages, of which the newer valid one counts. In the byte order of the machine, after
// a header of 16 bytes: magic 4, version 4, page size 4, flags 4, root 16, freelist 8, pages 8, transaction 8, and
// FNV-1a of these 56 bytes.
const (
	boltMagic  = 0xED0CDAED
	pageHeader = 16
	metaBytes  = 64
)

// metaPage is one of the two.
type metaPage struct {
	pageSize, pages, txid uint64
}

func readMetaPage(r io.ReaderAt, at int64) (metaPage, error) {
	order := binary.NativeEndian
	b := make([]byte, metaBytes)
	if _, err := r.ReadAt(b, at+pageHeader); errors.Is(err, io.EOF) {
		return metaPage{}, errors.New("the file ends before it")
	} else if err != nil {
		return metaPage{}, err
	}
	sum := fnv.New64a()
	sum.Write(b[:metaBytes-8])
	if order.Uint32(b) != boltMagic || sum.Sum64() != order.Uint64(b[metaBytes-8:]) {
		return metaPage{}, errChecksum
	}
	return metaPage{uint64(order.Uint32(b[8:])), order.Uint64(b[40:]), order.Uint64(b[48:])}, nil
}

// checkMetaPages checks what bbolt takes for granted: that both meta pages are valid, and that the file is not shorter
// than they say. bbolt falls back to the older page, which silently undoes the last transaction, and raft may have
// acknowledged that. A crash does not damage a meta page: it is 80 bytes in one sector.
func checkMetaPages(path string) error {
	f, size, err := openRegular(path)
	if err != nil {
		return err
	}
	defer f.Close()
	m0, err0 := readMetaPage(f, 0)
	m1, err1 := readMetaPage(f, pageSize)
	corrupt := func(format string, args ...any) error {
		return &CorruptError{File: path, Reason: fmt.Sprintf(format, args...)}
	}
	switch {
	case err0 != nil && err1 != nil, err0 == nil && m0.pageSize != pageSize:
		return fmt.Errorf("%w: %s (%d bytes) is not a file of this program; nothing was changed, check the path of the data directory", ErrNotLogStore, path, size)
	case err0 != nil:
		return corrupt("meta page 0, without which the last write may be missing: %v", err0)
	case err1 != nil:
		return corrupt("meta page 1, without which the last write may be missing: %v", err1)
	case m0.txid+1 != m1.txid && m1.txid+1 != m0.txid:
		return corrupt("transactions %d and %d do not follow each other: a write was lost", m0.txid, m1.txid)
	}
	if n, want := uint64(size)/pageSize, max(m0.pages, m1.pages); n < want {
		return corrupt("the file was truncated: %d bytes, %d pages of %d are missing", size, want-n, want)
	}
	return nil
}
