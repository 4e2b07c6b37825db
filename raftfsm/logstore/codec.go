package logstore

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"time"

	"github.com/hashicorp/raft"
)

// The stored form of a log entry, format 1, all numbers big endian:
//
//	 0  4  CRC32C over the key (the index, 8 bytes) and everything after these 4 bytes
//	 4  1  1, the version of this layout
//	 5  1  raft.LogType
//	 6  8  term
//	14  8  AppendedAt, seconds since 1970 (the zero time.Time fits)
//	22  4  AppendedAt, nanoseconds
//	26  4  length of the extensions
//	30     extensions, then data to the end
//
// Every field has a fixed place, so an entry has exactly one encoding.
const (
	entryVersion = 1
	entryHeader  = 30
	sumBytes     = 4
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

var (
	errChecksum = errors.New("checksum mismatch")
	errShort    = errors.New("value is too short")
)

func indexKey(index uint64) (key [8]byte) {
	binary.BigEndian.PutUint64(key[:], index)
	return key
}

// checksum covers the key as well as the value, so that a value found under another key is
// detected.
func checksum(key, rest []byte) uint32 {
	return crc32.Update(crc32.Checksum(key, castagnoli), castagnoli, rest)
}

func entrySize(l *raft.Log) int { return entryHeader + len(l.Extensions) + len(l.Data) }

// appendEntry appends the stored form of l to dst.
func appendEntry(dst []byte, l *raft.Log) []byte {
	at := len(dst)
	dst = append(dst, 0, 0, 0, 0, entryVersion, byte(l.Type))
	dst = binary.BigEndian.AppendUint64(dst, l.Term)
	dst = binary.BigEndian.AppendUint64(dst, uint64(l.AppendedAt.Unix()))
	dst = binary.BigEndian.AppendUint32(dst, uint32(l.AppendedAt.Nanosecond()))
	dst = binary.BigEndian.AppendUint32(dst, uint32(len(l.Extensions)))
	dst = append(dst, l.Extensions...)
	dst = append(dst, l.Data...)

	key := indexKey(l.Index)
	binary.BigEndian.PutUint32(dst[at:], checksum(key[:], dst[at+sumBytes:]))
	return dst
}

// checkEntry verifies that v is the stored form of the entry with this index and returns its checksum.
func checkEntry(index uint64, v []byte) (uint32, error) {
	if len(v) < entryHeader {
		return 0, errShort
	}
	key := indexKey(index)
	sum := binary.BigEndian.Uint32(v)
	if sum != checksum(key[:], v[sumBytes:]) {
		return 0, errChecksum
	}
	if v[4] != entryVersion {
		return 0, fmt.Errorf("entry layout %d, only %d is known", v[4], entryVersion)
	}
	if n := binary.BigEndian.Uint32(v[22:]); n > 999_999_999 {
		return 0, fmt.Errorf("%d nanoseconds", n)
	}
	if n := binary.BigEndian.Uint32(v[26:]); uint64(n) > uint64(len(v)-entryHeader) {
		return 0, fmt.Errorf("extensions of %d bytes in a value of %d", n, len(v))
	}
	return sum, nil
}

// decodeEntry verifies v and fills l from it. It copies. Empty data and
// extensions come back as nil.
func decodeEntry(index uint64, v []byte, l *raft.Log) error {
	if _, err := checkEntry(index, v); err != nil {
		return err
	}
	*l = raft.Log{
		Index: index,
		Term:  binary.BigEndian.Uint64(v[6:]),
		Type:  raft.LogType(v[5]),
		AppendedAt: time.Unix(
			int64(binary.BigEndian.Uint64(v[14:])),
			int64(binary.BigEndian.Uint32(v[22:])),
		).UTC(),
	}
	ext := int(binary.BigEndian.Uint32(v[26:]))
	if len(v) == entryHeader {
		return nil
	}
	body := append([]byte(nil), v[entryHeader:]...)
	if ext > 0 {
		l.Extensions = body[:ext:ext]
	}
	if ext < len(body) {
		l.Data = body[ext:]
	}
	return nil
}

// seal returns the stored form of the format record, and in format 1 of all values that are no entries: CRC32C over key
// and value, then the value.
func seal(key, value []byte) []byte {
	return append(binary.BigEndian.AppendUint32(nil, checksum(key, value)), value...)
}

// unseal verifies a sealed value. The result points into it.
func unseal(key, sealed []byte) ([]byte, uint32, error) {
	if len(sealed) < sumBytes {
		return nil, 0, errShort
	}
	sum := binary.BigEndian.Uint32(sealed)
	if sum != checksum(key, sealed[sumBytes:]) {
		return nil, 0, errChecksum
	}
	return sealed[sumBytes:], sum, nil
}

func keyIndex(key []byte) uint64 { return binary.BigEndian.Uint64(key) }

func indexName(index uint64) string { return fmt.Sprintf("index %d", index) }
