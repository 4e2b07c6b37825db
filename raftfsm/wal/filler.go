package wal

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
)

// filler makes files that are full of zeros, or were, before they are needed: an append then changes
// neither the size of the file nor where its blocks are, so that fdatasync has nothing to write but
// the data. It keeps one file at most.
type filler struct {
	dir   string
	bytes atomic.Int64 // of the spare file

	mu      sync.Mutex // guards the rest
	spare   *spare
	made    int  // names that were given out
	filling bool // by the goroutine
	failed  bool // it could not: nothing is tried before the file is needed
	closed  bool
	done    sync.WaitGroup
}

// spare is a file that can become a segment.
type spare struct {
	f    *os.File
	name string
	size int64
}

const (
	suffixNew   = ".new" // of a file that is not full yet
	suffixSpare = ".spare"
)

// want has a file of at least a size made in the background, unless there is one. An error shows when the file
// is taken, if there is still no room then.
func (w *filler) want(size int64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closed || w.filling || w.failed || w.spare != nil && w.spare.size >= size {
		return
	}
	if w.discardLocked() != nil {
		return
	}
	w.filling = true
	name := w.nameLocked()
	w.done.Go(func() {
		s, err := fill(name, size)
		w.mu.Lock()
		defer w.mu.Unlock()
		w.filling = false
		if w.failed = err != nil; !w.failed {
			w.keepLocked(s)
		}
	})
}

func (w *filler) nameLocked() string {
	w.made++
	return filepath.Join(w.dir, fmt.Sprint(w.made))
}

func (w *filler) keepLocked(s *spare) {
	w.spare = s
	w.bytes.Store(s.size)
}

func (w *filler) discardLocked() error {
	s := w.spare
	if s == nil {
		return nil
	}
	w.spare = nil
	w.bytes.Store(0)
	return errors.Join(s.f.Close(), os.Remove(s.name))
}

// take returns a file of at least a size. It waits for one that is being made.
func (w *filler) take(size int64) (*spare, error) {
	w.done.Wait()
	w.mu.Lock()
	defer w.mu.Unlock()
	w.failed = false
	if s := w.spare; s != nil && s.size >= size {
		w.spare = nil
		w.bytes.Store(0)
		return s, nil
	}
	return fill(w.nameLocked(), size)
}

// reuse takes a segment that is not needed any more, if one of its size will be: its blocks are there,
// and its frames do not match the nonce of its next use.
func (w *filler) reuse(s *segment, size int64) (taken bool, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closed || w.filling || w.failed || w.spare != nil || s.size != size {
		return false, nil
	}
	name := w.nameLocked() + suffixSpare
	if err := os.Rename(s.name, name); err != nil {
		return false, err
	}
	w.keepLocked(&spare{s.f, name, s.size})
	return true, nil
}

// fill makes a file of zeros, under another name until it is complete.
func fill(name string, size int64) (*spare, error) {
	f, err := os.OpenFile(name+suffixNew, os.O_CREATE|os.O_TRUNC|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	zeros := make([]byte, min(size, 1<<20))
	for at := int64(0); err == nil && at < size; at += int64(len(zeros)) {
		_, err = f.WriteAt(zeros[:min(int64(len(zeros)), size-at)], at)
	}
	if err == nil {
		err = f.Sync()
	}
	if err == nil {
		err = os.Rename(name+suffixNew, name+suffixSpare)
	}
	if err != nil {
		return nil, errors.Join(err, f.Close(), os.Remove(name+suffixNew))
	}
	return &spare{f, name + suffixSpare, size}, nil
}

func (w *filler) close() error {
	w.mu.Lock()
	w.closed = true
	w.mu.Unlock()
	w.done.Wait()
	w.mu.Lock()
	defer w.mu.Unlock()
	s := w.spare
	if s == nil {
		return nil
	}
	w.spare = nil
	return s.f.Close()
}

// numberOfSpare returns the number in the name of a spare file, 0 if it has none.
func numberOfSpare(name string) int {
	n, err := strconv.Atoi(strings.TrimSuffix(filepath.Base(name), suffixSpare))
	if err != nil {
		return 0
	}
	return n
}
