package logstore

import (
	"encoding/binary"
	"errors"
	"fmt"
	"runtime"
	"runtime/debug"
	"time"

	"go.etcd.io/bbolt"
)

// Format 1 kept the entries in the bbolt file, too, which was changed in place. Its buckets are log (index, big endian, to
// entry; one of 8 KiB and more is under the key "entry" in a bucket of its own), stable (key to sealed value), and meta
// (format, and a record of what the file must hold).
var (
	bucketLog = []byte("log")
	keyRecord = []byte("record")
	keyLarge  = []byte("entry")
)

const recordBytes = 36

// record summarizes what a file of format 1 must hold. The checksums in the values prove that the stored values are right;
// the record proves that nothing is missing, and that nothing older has come back.
type record struct {
	tx        uint64 // number of the transaction that wrote it, which is that of the newest meta page
	entries   uint64 // number of log entries
	entrySum  uint32 // exclusive or of their checksums
	commit    uint64 // commit index that was staged when the last entry was stored
	stable    uint32 // number of keys in the stable bucket
	stableSum uint32 // exclusive or of the checksums of their values
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

// difference says how what was found differs from the record.
func (r record) difference(found record) error {
	switch {
	case found == r:
		return nil
	case found.tx != r.tx:
		return fmt.Errorf("transaction %d was the last to write here, but the file is at %d: a write was lost, or another program has written", r.tx, found.tx)
	case found.entries != r.entries:
		return fmt.Errorf("%d log entries, but %d were stored", found.entries, r.entries)
	case found.stable != r.stable:
		return fmt.Errorf("%d settings, but %d were stored", found.stable, r.stable)
	default:
		return errors.New("an entry or a setting is an older one than was stored last: a write was lost")
	}
}

// formatOneReader reads a file of format 1.
type formatOneReader struct {
	path   string
	each   func(index uint64, v []byte) error // called for every entry in order, unless nil; v is valid during the call
	found  record
	values map[string][]byte
}

// readFormatOne reads all of a file and compares it with its record.
func readFormatOne(path string, timeout time.Duration, each func(index uint64, v []byte) error) (*formatOneReader, error) {
	if err := checkMetaPages(path); err != nil {
		return nil, err
	}
	// On a damaged file bbolt panics, faults, or makes slices of memory that is not its own. All of that ends here;
	// the garbage collector must not see such a slice.
	defer debug.SetGCPercent(debug.SetGCPercent(-1))
	runtime.GC() // ends a cycle that was under way
	r := &formatOneReader{path: path, each: each, values: map[string][]byte{}}
	err := guard(path, func() error {
		db, err := openBolt(path, bbolt.Options{Timeout: timeout, ReadOnly: true})
		if err != nil {
			return err
		}
		return errors.Join(db.View(r.read), db.Close())
	})
	var panicked *panicError
	if errors.As(err, &panicked) {
		err = r.corrupt("", err)
	}
	return r, err
}

func (r *formatOneReader) corrupt(key string, err error) error {
	return &CorruptError{File: r.path, Key: key, Reason: err.Error()}
}

func (r *formatOneReader) read(tx *bbolt.Tx) error {
	want, err := r.readMeta(tx.Bucket(bucketMeta))
	if err != nil {
		return err
	}
	r.found.tx, r.found.commit = uint64(tx.ID()), want.commit
	log, stable := tx.Bucket(bucketLog), tx.Bucket(bucketStable)
	if log == nil || stable == nil {
		return r.corrupt("", errors.New("a bucket is missing"))
	}
	err = stable.ForEach(func(key, sealed []byte) error {
		v, sum, err := unseal(key, sealed)
		if err != nil {
			return r.corrupt(fmt.Sprintf("%.100q", key), err)
		}
		r.found.stable++
		r.found.stableSum ^= sum
		r.values[string(key)] = append([]byte{}, v...)
		return nil
	})
	if err == nil {
		err = log.ForEach(func(key, v []byte) error { return r.entry(log, key, v) })
	}
	if err == nil {
		if err = want.difference(r.found); err != nil {
			err = r.corrupt("", err)
		}
	}
	return err
}

// readMeta reads the format first: everything else depends on it.
func (r *formatOneReader) readMeta(meta *bbolt.Bucket) (record, error) {
	foreign := fmt.Errorf("%w: %s is a bbolt file of another program, or damaged beyond recognition; nothing was changed, check the path of the data directory", ErrNotLogStore, r.path)
	if meta == nil || meta.Get(keyFormat) == nil {
		return record{}, foreign
	}
	format, _, err := unseal(keyFormat, meta.Get(keyFormat))
	if err != nil {
		return record{}, r.corrupt(string(keyFormat), err)
	}
	switch version, ok := decodeFormat(format); {
	case !ok:
		return record{}, foreign
	case version == formatTwo:
		return record{}, r.corrupt("", errNoTrailer)
	case version != formatOne:
		return record{}, checkVersion(r.path, version)
	}
	body, _, err := unseal(keyRecord, meta.Get(keyRecord))
	if err != nil {
		return record{}, r.corrupt(string(keyRecord), err)
	}
	rec, err := decodeRecord(body)
	if err != nil {
		return record{}, r.corrupt(string(keyRecord), err)
	}
	return rec, nil
}

func (r *formatOneReader) entry(log *bbolt.Bucket, key, v []byte) error {
	if len(key) != 8 {
		return r.corrupt(fmt.Sprintf("%.100q", key), errors.New("not an index"))
	}
	index := keyIndex(key)
	if v == nil {
		if large := log.Bucket(key); large != nil {
			v = large.Get(keyLarge)
		}
	}
	sum, err := checkEntry(index, v)
	if err != nil {
		return r.corrupt(indexName(index), err)
	}
	r.found.entries++
	r.found.entrySum ^= sum
	if r.each != nil {
		return r.each(index, v)
	}
	return nil
}
