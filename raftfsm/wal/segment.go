package wal

import (
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// A segment begins with a header of one sector, all numbers big endian:
//
//	 0  8  "txmgrlog"
//	 8  4  1, the version of the format
//	12  4  the log that it belongs to
//	16  8  number of the segment
//	24  8  nonce: random, another one at each use of the file
//	32  8  size of the file
//	40  4  CRC32C of 0 to 40
//
// Frames follow from 512 on. The last one of a segment that is not the last is a turn.
const (
	segmentHeader  = 512
	segmentMagic   = "txmgrlog"
	segmentVersion = 1
	headerBytes    = 44
	suffixSegment  = ".log"
)

// turnBytes is what is kept free in each segment for its turn.
var turnBytes = frameBytes(8)

// segment is one file of the log.
type segment struct {
	f      *os.File
	name   string // path
	number uint64
	nonce  uint64
	log    uint32
	size   int64
}

func segmentName(dir string, number uint64) string {
	return filepath.Join(dir, fmt.Sprintf("%016x%s", number, suffixSegment))
}

// numberOf returns the number in the name of a segment.
func numberOf(name string) (uint64, bool) {
	base, ok := strings.CutSuffix(filepath.Base(name), suffixSegment)
	if !ok || len(base) != 16 {
		return 0, false
	}
	n, err := strconv.ParseUint(base, 16, 64)
	return n, err == nil && n > 0
}

// newNonce draws a nonce. Each of its bytes has two bits at least: see the end of a frame.
func newNonce() uint64 {
	var b [8]byte
	_, _ = rand.Read(b[:]) // never fails
	return binary.BigEndian.Uint64(b[:]) | 0x1111_1111_1111_1111
}

func (s *segment) header() []byte {
	b := make([]byte, 0, segmentHeader)
	b = append(b, segmentMagic...)
	b = binary.BigEndian.AppendUint32(b, segmentVersion)
	b = binary.BigEndian.AppendUint32(b, s.log)
	b = binary.BigEndian.AppendUint64(b, s.number)
	b = binary.BigEndian.AppendUint64(b, s.nonce)
	b = binary.BigEndian.AppendUint64(b, uint64(s.size))
	b = binary.BigEndian.AppendUint32(b, crc32.Checksum(b, castagnoli))
	return b[:segmentHeader]
}

var errHeader = errors.New("the header of the segment does not match its checksum")

// readHeader fills number, nonce and size.
func (s *segment) readHeader(b []byte, size int64) error {
	if len(b) < segmentHeader || crc32.Checksum(b[:headerBytes-4], castagnoli) != binary.BigEndian.Uint32(b[headerBytes-4:]) {
		return errHeader
	}
	if string(b[:8]) != segmentMagic {
		return fmt.Errorf("%w: no segment of a log", ErrNotLog)
	}
	if v := binary.BigEndian.Uint32(b[8:]); v != segmentVersion {
		return fmt.Errorf("%w: version %d, this program knows %d", ErrVersion, v, segmentVersion)
	}
	s.log = binary.BigEndian.Uint32(b[12:])
	s.number, s.nonce = binary.BigEndian.Uint64(b[16:]), binary.BigEndian.Uint64(b[24:])
	if s.size = int64(binary.BigEndian.Uint64(b[32:])); s.size != size {
		return fmt.Errorf("the file has %d bytes, and had %d", size, s.size)
	}
	return nil
}

// close closes the file; it may have been closed already.
func (s *segment) close() error {
	if err := s.f.Close(); err != nil && !errors.Is(err, os.ErrClosed) {
		return err
	}
	return nil
}

// SyncDir makes the names in a directory durable.
func SyncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return fmt.Errorf("sync directory: %w", err)
	}
	if err := errors.Join(d.Sync(), d.Close()); err != nil {
		return fmt.Errorf("sync directory %s: %w", dir, err)
	}
	return nil
}
