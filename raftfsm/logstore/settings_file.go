package logstore

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"os"
	"path/filepath"
	"time"

	"go.etcd.io/bbolt"
	bolterrors "go.etcd.io/bbolt/errors"

	"github.com/txmgr/txmgr/raftfsm/wal"
)

// The settings are in a bbolt file, in these buckets. Behind bbolt's pages, where it never looks, the file ends with 16
// bytes: "txmgrsum", the version of the format (4 bytes, big endian), and the CRC32C of everything before it.
//
// The file is small, and written rarely, so it is replaced as a whole instead of being changed. bbolt reads what is mapped
// with no check: a flipped bit makes it panic, or use a pointer to anywhere. It only gets to see a file whose checksum
// matches, but for one of format 1, which has none (format_one.go).
var (
	bucketMeta   = []byte("meta")   // format, log
	bucketStable = []byte("stable") // key -> value
	keyFormat    = []byte("format")
	keyLog       = []byte("log") // in bucketMeta: the id that all segments of the log have
)

const (
	formatMagic  = "txmgr log store\n"
	trailerMagic = "txmgrsum"
	trailerBytes = 16
	formatOne    = 1 // the entries are in the same file, which has no checksum of its own
	formatTwo    = 2 // the entries are in segments

	pageSize = 4096 // fixed, so that a file does not depend on the machine that created it

	suffixNew = ".new" // of a file that is not complete yet

	syncsOfSettings = 3 // of one writeSettings: bbolt's own, the file, its name
)

var errNoTrailer = errors.New("no checksum at the end")

func openBolt(path string, o bbolt.Options) (*bbolt.DB, error) {
	o.PageSize, o.NoFreelistSync, o.FreelistType = pageSize, true, bbolt.FreelistMapType
	db, err := bbolt.Open(path, 0o600, &o)
	if errors.Is(err, bolterrors.ErrTimeout) {
		return nil, fmt.Errorf("%w: %s is opened by another program", ErrInUse, path)
	}
	return db, err
}

// writeSettings replaces the file. A crash leaves the old one or the new one.
func writeSettings(path string, log uint32, values map[string][]byte) error {
	if err := os.RemoveAll(path + suffixNew); err != nil { // what a crash has left
		return err
	}
	db, err := openBolt(path+suffixNew, bbolt.Options{Timeout: time.Second, NoSync: true})
	if err != nil {
		return err
	}
	err = db.Update(func(tx *bbolt.Tx) error {
		meta, err1 := tx.CreateBucket(bucketMeta)
		stable, err2 := tx.CreateBucket(bucketStable)
		if err := errors.Join(err1, err2); err != nil {
			return err
		}
		for key, val := range values {
			if err := stable.Put([]byte(key), val); err != nil {
				return err
			}
		}
		sealed := seal(keyFormat, encodeFormat(formatTwo))
		return errors.Join(meta.Put(keyFormat, sealed), meta.Put(keyLog, binary.BigEndian.AppendUint32(nil, log)))
	})
	if err = errors.Join(err, db.Close()); err == nil {
		err = addTrailer(path + suffixNew)
	}
	if err != nil {
		return err
	}
	return rename(path+suffixNew, path)
}

func addTrailer(path string) error {
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	b, err := io.ReadAll(f)
	if err == nil {
		b = binary.BigEndian.AppendUint32(append(b, trailerMagic...), formatTwo)
		b = binary.BigEndian.AppendUint32(b, crc32.Checksum(b, castagnoli))
		_, err = f.Write(b[len(b)-trailerBytes:])
	}
	if err == nil {
		err = f.Sync()
	}
	return errors.Join(err, f.Close())
}

// readSettings reads the file. It returns errNoTrailer for a file without a checksum.
func readSettings(path string, timeout time.Duration) (values map[string][]byte, log uint32, err error) {
	if err := checkTrailer(path); err != nil {
		return nil, 0, err
	}
	db, err := openBolt(path, bbolt.Options{Timeout: timeout, ReadOnly: true})
	if err != nil {
		return nil, 0, err
	}
	values = map[string][]byte{}
	err = db.View(func(tx *bbolt.Tx) error {
		log = binary.BigEndian.Uint32(tx.Bucket(bucketMeta).Get(keyLog))
		return tx.Bucket(bucketStable).ForEach(func(key, val []byte) error {
			values[string(key)] = append([]byte{}, val...)
			return nil
		})
	})
	return values, log, errors.Join(err, db.Close())
}

// syncFile makes the kernel write back and drop its pages of a file: after a failed fsync they may hold what never got to
// the disk, and after a crash writes that a power cut would undo, and on which raft must not rely.
func syncFile(path string) error {
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	defer f.Close()
	if err := f.Sync(); err != nil {
		return fmt.Errorf("sync %s before reading it: %w", path, err)
	}
	wal.ForgetCached(f)
	return nil
}

// openRegular opens a file for reading and returns its size.
func openRegular(path string) (*os.File, int64, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, 0, err
	}
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = fmt.Errorf("%w: %s is not a regular file", ErrNotLogStore, path)
	}
	if err != nil {
		return nil, 0, errors.Join(err, f.Close())
	}
	return f, info.Size(), nil
}

// checkTrailer compares the file with its checksum.
func checkTrailer(path string) error {
	f, size, err := openRegular(path)
	if err != nil {
		return err
	}
	defer f.Close()
	trailer := make([]byte, trailerBytes)
	if size < trailerBytes {
		return errNoTrailer
	}
	if _, err := f.ReadAt(trailer, size-trailerBytes); err != nil {
		return err
	}
	if string(trailer[:len(trailerMagic)]) != trailerMagic {
		return errNoTrailer
	}
	sum := crc32.New(castagnoli)
	if _, err := io.Copy(sum, io.NewSectionReader(f, 0, size-4)); err != nil {
		return err
	}
	if sum.Sum32() != binary.BigEndian.Uint32(trailer[12:]) {
		return &CorruptError{File: path, Reason: "the file does not match its checksum"}
	}
	return checkVersion(path, binary.BigEndian.Uint32(trailer[8:]))
}

func checkVersion(path string, version uint32) error {
	if version == formatTwo {
		return nil
	}
	return fmt.Errorf("%w: %s has version %d, this program knows %d; nothing was changed, run the program that wrote it or a newer one",
		ErrVersion, path, version, formatTwo)
}

// encodeFormat encodes the format record in the meta bucket. It is the same in all versions, so that every program can tell
// a newer file from a damaged one; programs of format 1 look for it alone.
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

// rename moves a complete and synced file to its place, durably.
func rename(from, to string) error {
	if err := os.Rename(from, to); err != nil {
		return err
	}
	return wal.SyncDir(filepath.Dir(to))
}
