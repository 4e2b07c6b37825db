package logstore

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"go.etcd.io/bbolt"
	bolterrors "go.etcd.io/bbolt/errors"
)

// Names beside the data file. Both are incomplete files; Open removes what a crash has left of
// them.
const (
	suffixNew     = ".new"
	suffixCompact = ".compact"
)

// pageSize is fixed, so that a file does not depend on the machine that created it.
const pageSize = 4096

// Open opens the log store at path, or creates it in an existing directory, and verifies all of it before
// anything is changed.
//
// Errors: [ErrInUse]; [ErrCorrupt] with the place of the damage; [ErrNotLogStore] and [ErrVersion]; and those of
// the operating system, such as fs.ErrNotExist and fs.ErrPermission for the directory.
func Open(path string, opts Options) (_ *Store, err error) {
	opts = opts.withDefaults()
	held, err := lock(path, opts.LockTimeout)
	if err != nil {
		return nil, fmt.Errorf("open log store: %w", err)
	}
	defer func() {
		if err != nil {
			held.Close()
		}
	}()
	for _, suffix := range []string{suffixNew, suffixCompact} {
		if err := os.Remove(path + suffix); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, fmt.Errorf("open log store: remove what a crash left behind: %w", err)
		}
	}
	if _, err := os.Lstat(path); errors.Is(err, fs.ErrNotExist) {
		if err := create(path); err != nil {
			return nil, fmt.Errorf("create log store: %w", err)
		}
	}
	found, err := verifyFile(path, nil)
	if err != nil {
		return nil, fmt.Errorf("open log store: %w", err)
	}
	s := &Store{path: path, opts: opts, lock: held}
	if found.needsCompaction(opts.CompactFreeBytes) {
		err := s.guard(func() (err error) { s.compactErr, err = compact(path, found); return err })
		if err != nil {
			return nil, fmt.Errorf("compact log store: %w", err)
		}
	}
	if err := s.guard(func() error {
		s.db, err = openBolt(path, func(o *bbolt.Options) { o.Timeout = opts.LockTimeout })
		return err
	}); err != nil {
		return nil, fmt.Errorf("open log store: %w", err)
	}
	s.publishLocked(state{record: found.record, first: found.first, last: found.last})
	s.staged = s.current.commit
	return s, nil
}

// Close waits for calls in progress and closes the file. The second Close does nothing. After a panic of bbolt,
// whose locks may still be held, the file stays open and locked until the process ends.
func (s *Store) Close() error {
	s.closeMu.Lock()
	defer s.closeMu.Unlock()
	if s.closed {
		return nil
	}
	s.closed = true
	if s.failStop.panicked.Load() {
		return s.failStop.failure()
	}
	err := s.db.Close()
	if lockErr := s.lock.Close(); err == nil {
		err = lockErr
	}
	if err != nil {
		return fmt.Errorf("close log store: %w", err)
	}
	return nil
}

// openBolt opens a file that verifyFile has passed, or creates one. tune may change the options.
func openBolt(path string, tune func(*bbolt.Options)) (*bbolt.DB, error) {
	options := &bbolt.Options{
		Timeout:        time.Second, // to lock the data file; our own lock keeps other stores away, this one keeps bbolt's tools away
		NoFreelistSync: true,
		FreelistType:   bbolt.FreelistMapType,
		PageSize:       pageSize,
	}
	if tune != nil {
		tune(options)
	}
	db, err := bbolt.Open(path, 0o600, options)
	if errors.Is(err, bolterrors.ErrTimeout) {
		return nil, fmt.Errorf("%w: %s is opened by another program", ErrInUse, path)
	}
	return db, err
}

// create makes an empty store under another name and then renames it, so that a crash leaves a
// complete file or none.
func create(path string) error {
	db, err := openBolt(path+suffixNew, nil)
	if err != nil {
		return err
	}
	err = db.Update(func(tx *bbolt.Tx) error {
		for _, name := range [][]byte{bucketLog, bucketMeta, bucketStable} {
			if _, err := tx.CreateBucket(name); err != nil {
				return err
			}
		}
		sealed, _ := seal(keyFormat, encodeFormat(formatVersion))
		if err := tx.Bucket(bucketMeta).Put(keyFormat, sealed); err != nil {
			return err
		}
		return new(record).put(tx)
	})
	if closeErr := db.Close(); err == nil {
		err = closeErr
	}
	if err != nil {
		return err
	}
	return rename(path+suffixNew, path)
}

// rename moves a complete and synced file to its place, durably.
func rename(from, to string) error {
	if err := os.Rename(from, to); err != nil {
		return err
	}
	return syncDir(filepath.Dir(to))
}
