package logstore

import (
	"fmt"
	"os"

	"go.etcd.io/bbolt"
)

// compactStep is how many bytes one transaction of a compaction copies.
const compactStep = 16 << 20

// needsCompaction reports whether copying the file is worthwhile. bbolt reuses free pages but never
// gives them back, so a log that was long once keeps its file size for ever.
func (c fileStats) needsCompaction(atLeast int64) bool {
	free := c.fileSizeBytes - c.usedBytes
	return atLeast >= 0 && free > atLeast && free > c.fileSizeBytes/2
}

// compact copies the live content of path to a fresh file, which then replaces it. The old file is
// untouched until the copy is complete, synced, read back from the disk and found equal; the rename
// is atomic. A crash at any point leaves one of the two files, and perhaps an incomplete copy,
// which Open removes.
//
// If the copy cannot be made (the likely reason is a full disk), the store can still run: the error
// is returned as problem. If its new name cannot be made durable, the error is err: a power cut
// could bring back the old file after entries went to the new one.
func compact(path string, want fileStats) (problem, err error) {
	tmp := path + suffixCompact
	if err := copyLive(tmp, path, want.record); err != nil {
		os.Remove(tmp)
		return fmt.Errorf("compact %s: %w", path, err), nil
	}
	got, err := verifyFile(tmp, nil)
	want.tx = got.tx
	if err == nil && (got.record != want.record || got.first != want.first || got.last != want.last) {
		err = fmt.Errorf("the copy differs: %+v instead of %+v", got, want)
	}
	if err != nil {
		os.Remove(tmp)
		return fmt.Errorf("compact %s: %w", path, err), nil
	}
	return nil, rename(tmp, path)
}

func copyLive(to, from string, rec record) (err error) {
	src, err := openBolt(from, func(o *bbolt.Options) { o.ReadOnly = true })
	if err != nil {
		return err
	}
	defer src.Close()
	// Only the last sync counts: the copy is not read before the rename.
	dst, err := openBolt(to, func(o *bbolt.Options) { o.NoSync = true })
	if err != nil {
		return err
	}
	defer func() {
		if closeErr := dst.Close(); err == nil {
			err = closeErr
		}
	}()
	if err := bbolt.Compact(dst, src, compactStep); err != nil {
		return err
	}
	if err := dst.Update(rec.put); err != nil { // the copied record names a transaction of the old file
		return err
	}
	return dst.Sync()
}
