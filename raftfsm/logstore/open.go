package logstore

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/txmgr/txmgr/raftfsm/wal"
)

// suffixSegments ends the name of the directory of segments, beside the file of settings.
const suffixSegments = ".segments"

// Open opens the log store at path, or creates it in an existing directory, and verifies all of it before
// anything is changed. The entries of a file of format 1 are moved into segments.
//
// Errors: [ErrInUse]; [ErrCorrupt] with the place of the damage; [ErrNotLogStore] and [ErrVersion]; and those of
// the operating system, such as fs.ErrNotExist and fs.ErrPermission for the directory.
func Open(path string, opts Options) (_ *Store, err error) {
	s := &Store{path: path, opts: opts.withDefaults()}
	if s.lock, err = lock(path, s.opts.LockTimeout); err != nil {
		return nil, fmt.Errorf("open log store: %w", err)
	}
	if err := s.open(); err != nil {
		return nil, errors.Join(fmt.Errorf("open log store: %w", err), s.closeFiles())
	}
	return s, nil
}

// opening is how the segments are opened; complete makes the store whole afterwards.
type opening struct {
	wal.Options
	take     func(wal.Frame, wal.Position) error
	complete func() error
}

// open leaves a store that a crash interrupts as it was, or complete: the file of settings, without which there is no
// store, is written last.
func (s *Store) open() error {
	o := opening{Options: wal.Options{SegmentBytes: s.opts.SegmentBytes, Exists: true}, take: s.take}
	o.Verified = s.checkCommit
	err := s.readSettings(&o)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		err = s.create(&o)
	case errors.Is(err, errNoTrailer):
		err = s.moveEntries(&o)
	}
	if err == nil {
		err = s.openSegments(o)
	}
	if err == nil && o.complete != nil {
		err = o.complete()
	}
	if err != nil {
		return err
	}
	s.staged = s.commit
	for _, suffix := range []string{suffixNew, suffixSegments + suffixNew, suffixCompact} {
		if err := os.RemoveAll(s.path + suffix); err != nil {
			return fmt.Errorf("remove what a crash left behind: %w", err)
		}
	}
	return nil
}

// readSettings reads the file of settings, which the disk holds, as its name, before it is believed.
func (s *Store) readSettings(o *opening) error {
	if err := syncFile(s.path); err != nil {
		return err
	}
	if err := wal.SyncDir(filepath.Dir(s.path)); err != nil {
		return err
	}
	return guard(s.path, func() (err error) {
		s.settings, o.ID, err = readSettings(s.path, s.opts.LockTimeout)
		return err
	})
}

// create prepares for an empty log. There may be its first segment already, if a crash has interrupted the creation.
func (s *Store) create(o *opening) error {
	if err := os.Mkdir(s.path+suffixSegments, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	used := false
	o.Exists = false
	o.take = func(wal.Frame, wal.Position) error {
		used = true
		return nil
	}
	o.Verified = func() error {
		if !used {
			return nil
		}
		return &CorruptError{File: s.path, Reason: "it is missing, and the segments beside it hold a log"}
	}
	o.complete = func() error { return s.replaceLocked(map[string][]byte{}) }
	return wal.SyncDir(filepath.Dir(s.path))
}

func (s *Store) checkCommit() error {
	if _, last := s.entries.bounds(); s.commit > last {
		return &CorruptError{File: s.path + suffixSegments, Reason: fmt.Sprintf("commit index %d is beyond the last entry, %d", s.commit, last)}
	}
	return nil
}

// openSegments opens the segments; its errors are those of this package.
func (s *Store) openSegments(o opening) (err error) {
	s.log, err = wal.Open(s.path+suffixSegments, o.Options, o.take)
	var damage *wal.CorruptError
	switch {
	case errors.As(err, &damage):
		return &CorruptError{File: damage.File, Offset: damage.Offset, Reason: damage.Reason}
	case errors.Is(err, wal.ErrVersion):
		return fmt.Errorf("%w: %w; nothing was changed, run the program that wrote it or a newer one", ErrVersion, err)
	case errors.Is(err, wal.ErrNotLog):
		return fmt.Errorf("%w: %w; nothing was changed", ErrNotLogStore, err)
	case errors.Is(err, fs.ErrNotExist):
		return &CorruptError{File: s.path + suffixSegments, Reason: "the directory is missing"}
	}
	return err
}

// take takes a frame of the log into the index.
func (s *Store) take(f wal.Frame, p wal.Position) error {
	s.commit = f.Commit
	if f.Kind == wal.Deletion {
		low, high, err := rangeIn(f)
		s.entries = s.entries.without(low, high)
		return err
	}
	places, err := placesIn(f, p)
	if err != nil {
		return err
	}
	if _, last := s.entries.bounds(); f.Index <= last {
		return fmt.Errorf("entry %d after entry %d", f.Index, last)
	}
	s.entries.add(f.Index, places)
	return nil
}

// Close waits for calls in progress and closes the files. The second Close does nothing.
func (s *Store) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.view.Lock()
	defer s.view.Unlock()
	if s.closed {
		return nil
	}
	s.closed = true
	if err := s.closeFiles(); err != nil {
		return fmt.Errorf("close log store: %w", err)
	}
	return nil
}

func (s *Store) closeFiles() (err error) {
	if s.log != nil {
		err = s.log.Close()
	}
	return errors.Join(err, s.lock.Close())
}
