package logstore

import (
	"errors"
	"fmt"
	"io"
	"os"
)

// fileStats is the result of verifying a file.
type fileStats struct {
	record               // as counted, with the stored commit index
	first, last   uint64 // indices of the log, 0 when it is empty
	usedBytes     int64  // of pages in use
	holes         int    // where raft left a hole after it installed a snapshot
	afterHole     uint64 // the last index before the first hole
	pageSize      int
	fileSizeBytes int64
}

// verify reads the whole file, without bbolt, and returns its contents as fileStats. It finds every
// difference between the file and what was committed: structure by the walker, values by their
// checksums, absence and staleness by the record. each, if not nil, is called for every entry.
func verify(file string, r io.ReaderAt, size int64, each func(index uint64, value []byte)) (fileStats, error) {
	w, err := newWalker(file, r, size)
	if err != nil {
		return fileStats{}, err
	}
	buckets := map[string][]byte{}
	err = w.root(func(key, value []byte, sub bool) error {
		if !sub || len(buckets) == 3 {
			return w.notLogStore()
		}
		buckets[string(key)] = append([]byte(nil), value...)
		return nil
	})
	if err != nil {
		return fileStats{}, err
	}
	want, err := w.verifyMeta(buckets[string(bucketMeta)])
	if err != nil {
		return fileStats{}, err
	}
	c := fileStats{pageSize: w.meta.pageSize, fileSizeBytes: size}
	c.tx, c.commit = w.meta.txid, want.commit
	if err := w.verifyLog(buckets[string(bucketLog)], &c, each); err != nil {
		return fileStats{}, err
	}
	if err := w.verifyStable(buckets[string(bucketStable)], &c); err != nil {
		return fileStats{}, err
	}
	w.bucket = ""
	if c.record != want {
		return fileStats{}, w.corrupt(0, "", c.diffError(want))
	}
	if c.commit > c.last {
		return fileStats{}, w.corrupt(0, "", fmt.Errorf("commit index %d is beyond the last entry, %d", c.commit, c.last))
	}
	c.usedBytes = int64(w.used) * int64(w.meta.pageSize)
	return c, nil
}

// verifyFile is verify for a file on disk. It first makes the kernel write back and drop its pages
// of the file, so that the bytes read are those on the disk: after a failed fsync memory may hold
// pages that never got there, and after a crash it holds writes that a power cut would undo, and on
// which raft must not rely.
func verifyFile(path string, each func(index uint64, value []byte)) (fileStats, error) {
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return fileStats{}, fmt.Errorf("open log store: %w", err)
	}
	defer f.Close()
	if err := f.Sync(); err != nil {
		return fileStats{}, fmt.Errorf("sync %s before reading it: %w", path, err)
	}
	forgetCached(f)
	info, err := f.Stat()
	if err != nil {
		return fileStats{}, fmt.Errorf("open log store: %w", err)
	}
	if !info.Mode().IsRegular() {
		return fileStats{}, fmt.Errorf("%w: %s is not a regular file", ErrNotLogStore, path)
	}
	return verify(path, f, info.Size(), each)
}

func (w *walker) notLogStore() error {
	return fmt.Errorf("%w: %s is a bbolt file of another program, or damaged beyond recognition; nothing was changed, check the path of the data directory", ErrNotLogStore, w.file)
}

// verifyMeta checks the format first: everything else depends on it.
func (w *walker) verifyMeta(bucket []byte) (record, error) {
	if bucket == nil {
		return record{}, w.notLogStore()
	}
	w.bucket = string(bucketMeta)
	values := map[string][]byte{}
	err := w.bucketAt(bucket, func(key, value []byte, sub bool) error {
		if sub || len(values) == 16 {
			return w.notLogStore()
		}
		values[string(key)] = append([]byte(nil), value...)
		return nil
	})
	if err != nil {
		return record{}, err
	}
	sealed, ok := values[string(keyFormat)]
	if !ok {
		return record{}, w.notLogStore()
	}
	format, _, err := unseal(keyFormat, sealed)
	if err != nil {
		return record{}, w.corrupt(0, string(keyFormat), err)
	}
	switch version, ok := decodeFormat(format); {
	case !ok:
		return record{}, w.notLogStore()
	case version != formatVersion:
		return record{}, fmt.Errorf("%w: %s has version %d, this program knows %d; nothing was changed, run the program that wrote it or a newer one",
			ErrVersion, w.file, version, formatVersion)
	}
	body, _, err := unseal(keyRecord, values[string(keyRecord)])
	if err != nil {
		return record{}, w.corrupt(0, string(keyRecord), err)
	}
	r, err := decodeRecord(body)
	if err != nil {
		return record{}, w.corrupt(0, string(keyRecord), err)
	}
	return r, nil
}

func (w *walker) verifyLog(bucket []byte, c *fileStats, each func(uint64, []byte)) error {
	w.bucket = string(bucketLog)
	if bucket == nil {
		return w.corrupt(0, "", errors.New("bucket is missing"))
	}
	return w.bucketAt(bucket, func(key, value []byte, sub bool) error {
		if len(key) != 8 {
			return w.corrupt(0, fmt.Sprintf("%q", key), errors.New("not an index"))
		}
		index := keyIndex(key)
		if !sub {
			return w.verifyEntry(index, value, c, each)
		}
		found := false
		err := w.bucketAt(value, func(key, value []byte, sub bool) error {
			if sub || found || string(key) != string(keyLarge) {
				return w.corrupt(0, indexName(index), errors.New("unexpected key in the bucket of a large entry"))
			}
			found = true
			return w.verifyEntry(index, value, c, each)
		})
		if err == nil && !found {
			err = w.corrupt(0, indexName(index), errors.New("the bucket of a large entry is empty"))
		}
		return err
	})
}

func (w *walker) verifyEntry(index uint64, value []byte, c *fileStats, each func(uint64, []byte)) error {
	sum, err := checkEntry(index, value)
	if err == nil && index == 0 {
		err = errors.New("there is no index 0")
	}
	if err != nil {
		return w.corrupt(0, indexName(index), err)
	}
	if c.entries == 0 {
		c.first = index
	} else if index != c.last+1 {
		if c.holes == 0 {
			c.afterHole = c.last
		}
		c.holes++
	}
	c.last = index
	c.entries++
	c.entrySum ^= sum
	if each != nil {
		each(index, value)
	}
	return nil
}

func (w *walker) verifyStable(bucket []byte, c *fileStats) error {
	w.bucket = string(bucketStable)
	if bucket == nil {
		return w.corrupt(0, "", errors.New("bucket is missing"))
	}
	return w.bucketAt(bucket, func(key, value []byte, sub bool) error {
		_, sum, err := unseal(key, value)
		if sub {
			err = errors.New("unexpected bucket")
		}
		if err != nil {
			return w.corrupt(0, fmt.Sprintf("%q", key), err)
		}
		c.stable++
		c.stableSum ^= sum
		return nil
	})
}

// diffError describes how the counted contents differ from the record.
func (c *fileStats) diffError(want record) error {
	hole := ""
	if c.holes > 0 {
		hole = fmt.Sprintf(" (the first hole is after index %d)", c.afterHole)
	}
	switch {
	case c.tx != want.tx:
		return fmt.Errorf("transaction %d was the last to write here, but the file is at %d: a write was lost, or another program has written", want.tx, c.tx)
	case c.entries != want.entries:
		return fmt.Errorf("%d log entries from %d to %d, but %d were stored%s", c.entries, c.first, c.last, want.entries, hole)
	case c.stable != want.stable:
		return fmt.Errorf("%d keys in the stable store, but %d were stored", c.stable, want.stable)
	default:
		return errors.New("an entry or a stable value is an older one than was stored last: a write was lost")
	}
}
