package logstore

import (
	"encoding/binary"
	"fmt"

	"go.etcd.io/bbolt"
)

// The buckets of the file and the keys of the meta bucket.
var (
	bucketLog    = []byte("log")    // index -> entry, or index -> bucket for a large entry
	bucketMeta   = []byte("meta")   // format, record
	bucketStable = []byte("stable") // raft's term and vote

	keyFormat = []byte("format")
	keyRecord = []byte("record")
	keyLarge  = []byte("entry") // the only key in the bucket of a large entry
)

const (
	formatMagic   = "txmgr log store\n"
	formatVersion = 1
	recordBytes   = 36
)

// record summarizes what the file must hold. It is rewritten in the transaction of every change, in
// a bucket small enough to live inside bbolt's root page, which every transaction rewrites anyway:
// it costs no page and no fsync.
//
// The checksums in the values prove that the stored values are right; the record proves that
// nothing is missing, and that nothing older has come back (a lost write, a pointer to a freed
// page).
type record struct {
	tx        uint64 // number of the transaction that wrote it, which is that of the newest meta page
	entries   uint64 // number of log entries
	entrySum  uint32 // exclusive or of their checksums
	commit    uint64 // commit index that was staged when the last entry was stored
	stable    uint32 // number of keys in the stable store
	stableSum uint32 // exclusive or of the checksums of their values
}

func (r record) encode() []byte {
	b := make([]byte, 0, recordBytes)
	b = binary.BigEndian.AppendUint64(b, r.tx)
	b = binary.BigEndian.AppendUint64(b, r.entries)
	b = binary.BigEndian.AppendUint32(b, r.entrySum)
	b = binary.BigEndian.AppendUint64(b, r.commit)
	b = binary.BigEndian.AppendUint32(b, r.stable)
	return binary.BigEndian.AppendUint32(b, r.stableSum)
}

func decodeRecord(b []byte) (record, error) {
	if len(b) != recordBytes {
		return record{}, fmt.Errorf("%d bytes instead of %d", len(b), recordBytes)
	}
	return record{
		tx:        binary.BigEndian.Uint64(b),
		entries:   binary.BigEndian.Uint64(b[8:]),
		entrySum:  binary.BigEndian.Uint32(b[16:]),
		commit:    binary.BigEndian.Uint64(b[20:]),
		stable:    binary.BigEndian.Uint32(b[28:]),
		stableSum: binary.BigEndian.Uint32(b[32:]),
	}, nil
}

// put stores the record as the last change of tx.
func (r *record) put(tx *bbolt.Tx) error {
	r.tx = uint64(tx.ID())
	sealed, _ := seal(keyRecord, r.encode())
	return tx.Bucket(bucketMeta).Put(keyRecord, sealed)
}

// encodeFormat encodes the format record. Its own layout is the same in all later versions, so that
// every program can tell a newer file from a damaged one.
func encodeFormat(version uint32) []byte {
	return binary.BigEndian.AppendUint32([]byte(formatMagic), version)
}

// decodeFormat returns the version, or false if b is not a format record.
func decodeFormat(b []byte) (uint32, bool) {
	if len(b) != len(formatMagic)+4 || string(b[:len(formatMagic)]) != formatMagic {
		return 0, false
	}
	return binary.BigEndian.Uint32(b[len(formatMagic):]), true
}
