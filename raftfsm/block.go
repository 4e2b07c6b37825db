package raftfsm

import (
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"hash"
	"hash/crc32"
	"io"
	"slices"
)

// The kinds of blocks of a snapshot. Never renumbered.
const (
	blockHeader byte = iota + 1
	blockTransactions
	blockEnd
	blockAudit
	blockSessions

	newestBlock = blockSessions
)

const (
	// blockHeadSize is how many bytes of a block precede its body: kind, length, checksum.
	blockHeadSize = 9
	// blockTarget is the size at which a block is written. One is larger only if its last element is.
	blockTarget = 128 << 10
	// maxBlock is more than any block can have: a transaction with the most and the largest branches takes 66 MiB.
	maxBlock = 128 << 20
	// readStep is how much memory is allocated at once for a length that was read, before its bytes
	// have arrived.
	readStep = 1 << 20
)

// blockWriter splits a stream into blocks. The caller appends to body, and calls flush.
type blockWriter struct {
	w      io.Writer
	sum    hash.Hash // of all bytes written
	number uint64
	buf    []byte // space for the head, then the body
}

func newBlockWriter(w io.Writer) *blockWriter {
	return &blockWriter{w: w, sum: sha256.New(), buf: make([]byte, blockHeadSize, blockHeadSize+2*blockTarget)}
}

// write writes bytes unchanged.
func (b *blockWriter) write(p []byte) error {
	_, _ = b.sum.Write(p) // a hash never fails
	_, err := b.w.Write(p)
	return err
}

// flush writes the body as a block of the given kind, and empties it.
func (b *blockWriter) flush(kind byte) error {
	b.number++
	body := len(b.buf) - blockHeadSize
	if body > maxBlock {
		return fmt.Errorf("block %d: %w: %d bytes; at most %d", b.number, ErrTooLarge, body, maxBlock)
	}
	b.buf[0] = kind
	binary.LittleEndian.PutUint32(b.buf[1:], uint32(body))
	binary.LittleEndian.PutUint32(b.buf[5:], blockSum(b.number, b.buf))
	if err := b.write(b.buf); err != nil {
		return fmt.Errorf("block %d: %w", b.number, err)
	}
	if cap(b.buf) > 4*blockTarget {
		b.buf = make([]byte, blockHeadSize, blockHeadSize+2*blockTarget) // release the buffer of an oversized block
	}
	b.buf = b.buf[:blockHeadSize]
	return nil
}

// flushFull writes the body when it is large enough for a block.
func (b *blockWriter) flushFull(kind byte) error {
	if len(b.buf) < blockTarget {
		return nil
	}
	return b.flush(kind)
}

// flushRest writes the rest as a last block, if there is any.
func (b *blockWriter) flushRest(kind byte) error {
	if len(b.buf) == blockHeadSize {
		return nil
	}
	return b.flush(kind)
}

// blockSum is the checksum of a whole block, without the checksum itself, and of its number: a
// missing or displaced block is an error at the first block affected.
func blockSum(number uint64, block []byte) uint32 {
	var n [8]byte
	binary.LittleEndian.PutUint64(n[:], number)
	sum := crc32.Update(crc32.Checksum(n[:], castagnoli), castagnoli, block[:5])
	return crc32.Update(sum, castagnoli, block[blockHeadSize:])
}

// blockReader is the inverse of blockWriter.
type blockReader struct {
	r      io.Reader
	sum    hash.Hash // of all blocks but the last one read
	number uint64
	buf    []byte
}

func newBlockReader(r io.Reader) *blockReader {
	return &blockReader{r: r, sum: sha256.New()}
}

// next returns the next block. The body is valid until the next call.
func (b *blockReader) next() (kind byte, body []byte, err error) {
	_, _ = b.sum.Write(b.buf) // a hash never fails
	b.number++
	b.buf = b.buf[:0]
	if err := b.read(blockHeadSize); err != nil {
		return 0, nil, err
	}
	size := binary.LittleEndian.Uint32(b.buf[1:])
	if size > maxBlock {
		return 0, nil, b.corrupt("%d bytes long; at most %d", size, maxBlock)
	}
	for left := int(size); left > 0; left -= min(left, readStep) {
		if err := b.read(min(left, readStep)); err != nil {
			return 0, nil, err
		}
	}
	if got, want := blockSum(b.number, b.buf), binary.LittleEndian.Uint32(b.buf[5:]); got != want {
		return 0, nil, b.corrupt("its checksum is %08x; want %08x", got, want)
	}
	return b.buf[0], b.buf[blockHeadSize:], nil
}

// read appends n bytes of the stream to buf.
func (b *blockReader) read(n int) error {
	at := len(b.buf)
	b.buf = slices.Grow(b.buf, n)[:at+n]
	switch _, err := io.ReadFull(b.r, b.buf[at:]); {
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return b.corrupt("the snapshot is cut short")
	case err != nil:
		return fmt.Errorf("block %d: read: %w", b.number, err)
	}
	return nil
}

func (b *blockReader) corrupt(format string, args ...any) error {
	return fmt.Errorf("%w: block %d: %s", ErrCorrupt, b.number, fmt.Sprintf(format, args...))
}
