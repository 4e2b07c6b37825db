package wal

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// firstSegment is the size of the first segment; each further one has four times as much, up to
// [Options].SegmentBytes.
const firstSegment = 256 << 10

// Options configures a [Log]. The zero value is valid.
type Options struct {
	// SegmentBytes is the size of a segment, unless one frame needs more. Defaults to 16 MiB.
	SegmentBytes int64
	// Exists says that there is a log: if it is missing, Open does not make one.
	Exists bool
	// ID tells logs apart: a segment with another one is refused. 0 takes that of the first segment, and for
	// a new log one by chance; see [Log.ID].
	ID uint32
	// Verified is called when all was read and checked, before anything is changed. Its error ends Open.
	Verified func() error

	trustCache bool // for tests of damage: what is read need not be on the disk
}

// Open opens the log in a directory that exists, or makes an empty one. It gives take every frame that
// was written and is needed, oldest first, and perhaps some that are not; the frame's body is valid during the
// call only. An error of take is reported as damage of that frame. All is read from the disk and checked before
// anything is changed.
//
// Errors: [ErrCorrupt] with the place of the damage; [ErrNotLog] and [ErrVersion]; that of Verified; and those of the
// operating system.
func Open(dir string, o Options, take func(Frame, Position) error) (_ *Log, err error) {
	if o.SegmentBytes == 0 {
		o.SegmentBytes = 16 << 20
	}
	l := &Log{dir: dir, opts: o, filler: &filler{dir: dir}}
	defer func() {
		if err != nil {
			err = errors.Join(err, l.Close())
		}
	}()
	found, err := list(dir)
	if err != nil {
		return nil, err
	}
	if !o.trustCache {
		if err := SyncDir(dir); err != nil {
			return nil, err
		}
	}
	r := reader{log: l, take: take}
	err = r.read(found.segments)
	if err == nil && len(l.segments) == 0 && o.Exists {
		err = &CorruptError{File: dir, Reason: "it holds no segment"}
	}
	if err == nil && o.Verified != nil {
		err = o.Verified()
	}
	if err == nil {
		err = r.tidy(found)
	}
	if err != nil {
		return nil, err
	}
	if len(l.segments) > 0 {
		l.free.Store(l.last().size - l.at)
		return l, nil
	}
	s, err := l.newSegment(1, l.sizeOf(1))
	if err != nil {
		return nil, err
	}
	l.add(s)
	return l, nil
}

// files are the paths in the directory of a log.
type files struct {
	segments   []string // by number
	spares     []string
	incomplete []string
}

func list(dir string) (f files, err error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return f, err
	}
	for _, e := range entries {
		name := filepath.Join(dir, e.Name())
		switch _, ok := numberOf(name); {
		case ok:
			f.segments = append(f.segments, name)
		case strings.HasSuffix(name, suffixNew):
			f.incomplete = append(f.incomplete, name)
		case strings.HasSuffix(name, suffixSpare):
			f.spares = append(f.spares, name)
		}
	}
	slices.Sort(f.segments)
	return f, nil
}

// tidy removes what a crash has left, and the files that were filled before the log was closed but one.
func (r *reader) tidy(found files) error {
	remove := found.incomplete
	if r.unused != "" {
		remove = append(remove, r.unused)
	}
	for _, name := range remove {
		if err := os.Remove(name); err != nil {
			return err
		}
	}
	for i, name := range found.spares {
		if err := r.log.filler.adopt(name, i == 0); err != nil {
			return err
		}
	}
	for len(r.log.segments) > 0 && r.log.segments[0].number < r.oldest {
		if err := r.log.drop(r.log.segments[0]); err != nil {
			return err
		}
		r.log.segments = r.log.segments[1:]
	}
	return nil
}

// adopt takes a file that was filled before the log was closed, or removes it.
func (w *filler) adopt(name string, keep bool) error {
	if !keep {
		return os.Remove(name)
	}
	f, err := os.OpenFile(name, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	info, err := f.Stat()
	if err == nil {
		err = f.Sync() // the blocks of a file that a crash left may be on their way
	}
	if err != nil {
		return errors.Join(err, f.Close())
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.keepLocked(&spare{f, name, info.Size()})
	w.made = numberOfSpare(name)
	return nil
}
