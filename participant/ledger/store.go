package ledger

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync"
	"time"

	"go.etcd.io/bbolt"
	berrors "go.etcd.io/bbolt/errors"
)

// store is the file as one part of one process uses it. The file is open only while operations
// run, so that other processes get their turn.
type store struct {
	path    string
	fileSem chan struct{} // holds one element while an operation has, or wants, the file

	mu       sync.Mutex // guards all below
	queue    []*op
	writeErr error     // the first failed write
	lastEnds uint64    // how many outcomes had come at the last read
	lastRead time.Time // zero: never read
}

// op is one operation. It may be run more than once, and refuses before it writes anything.
type op struct {
	do     func(*bbolt.Tx) error
	done   chan struct{} // closed when err is final
	err    error
	failed bool // otherwise than by a refusal
}

func newStore(path string) *store {
	return &store{path: path, fileSem: make(chan struct{}, 1)}
}

// update runs do in a transaction of the file, which it may share with others.
// When update returns nil the transaction is durable; otherwise do has changed
// nothing, unless the commit itself failed.
func (s *store) update(ctx context.Context, do func(*bbolt.Tx) error) error {
	mine := &op{do: do, done: make(chan struct{})}
	if err := s.enqueue(mine); err != nil {
		return err
	}
	select {
	case <-mine.done:
		return mine.err
	case <-ctx.Done():
		if s.withdraw(mine) {
			return fmt.Errorf("ledger %s: %w", s.path, context.Cause(ctx))
		}
		<-mine.done // it is being carried out
		return mine.err
	case s.fileSem <- struct{}{}:
	}
	defer func() { <-s.fileSem }()
	if err := s.runQueued(ctx); err != nil && s.withdraw(mine) {
		return fmt.Errorf("ledger %s: %w", s.path, err)
	}
	<-mine.done // by this call, or by the one that had the file before
	return mine.err
}

// view runs do in a transaction of the file that changes nothing.
func (s *store) view(ctx context.Context, do func(*bbolt.Tx) error) error {
	err := s.readOnce(ctx, do)
	if errors.Is(err, errNewFile) {
		if err = s.update(ctx, func(*bbolt.Tx) error { return nil }); err == nil {
			err = s.readOnce(ctx, do)
		}
	}
	return err
}

func (s *store) readOnce(ctx context.Context, do func(*bbolt.Tx) error) error {
	if info, err := os.Stat(s.path); errors.Is(err, fs.ErrNotExist) || err == nil && info.Size() == 0 {
		return errNewFile
	}
	db, err := s.open(ctx, true)
	if err != nil {
		return fmt.Errorf("ledger %s: %w", s.path, err)
	}
	return errors.Join(db.View(do), db.Close())
}

func (s *store) enqueue(mine *op) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.writeErr == nil {
		s.queue = append(s.queue, mine)
	}
	return s.writeErr
}

// withdraw removes an operation that was not begun.
func (s *store) withdraw(mine *op) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i, o := range s.queue {
		if o == mine {
			s.queue = append(s.queue[:i], s.queue[i+1:]...)
			return true
		}
	}
	return false
}

func (s *store) takeQueued() []*op {
	s.mu.Lock()
	defer s.mu.Unlock()
	ops := s.queue
	s.queue = nil
	return ops
}

// runQueued opens the file and runs all queued operations. The caller holds fileSem. An error
// means that nothing was begun.
func (s *store) runQueued(ctx context.Context) error {
	s.mu.Lock()
	idle := len(s.queue) == 0
	s.mu.Unlock()
	if idle {
		return nil
	}
	_, statErr := os.Stat(s.path)
	db, err := s.open(ctx, false)
	if err != nil {
		return err
	}
	ops := s.takeQueued()
	ends, err := runAll(db, ops)
	err = errors.Join(err, db.Close())
	if err == nil && statErr != nil {
		err = syncDir(filepath.Dir(s.path)) // the file is new
	}
	if err != nil {
		err = fmt.Errorf("ledger %s: %w; nothing more is done with it by this process; restart it when the cause is gone", s.path, err)
		s.mu.Lock()
		s.writeErr = err
		s.mu.Unlock()
	} else {
		s.recordEnds(ends)
	}
	for _, o := range ops {
		if err != nil {
			o.err = err
		}
		close(o.done)
	}
	return nil
}

// runAll runs operations in one transaction. Each has its own error; the returned one is the
// transaction's. An operation that fails otherwise than by refusing may have written something:
// all operations are repeated without it. ends is how many outcomes have come by now.
func runAll(db *bbolt.DB, ops []*op) (ends uint64, err error) {
	for again := true; again; {
		tx, err := db.Begin(true)
		if err != nil {
			return 0, err
		}
		if err := prepareFile(tx); err != nil {
			return 0, errors.Join(err, tx.Rollback())
		}
		before := tx.Bucket(bucketOrder).Sequence()
		changed := false
		changed, again = runOnce(tx, ops)
		ends = tx.Bucket(bucketOrder).Sequence()
		if changed && !again {
			return ends, tx.Commit()
		}
		if err := tx.Rollback(); err != nil {
			return 0, err
		}
		ends = before
	}
	return ends, nil
}

func runOnce(tx *bbolt.Tx, ops []*op) (changed, failed bool) {
	for _, o := range ops {
		if o.failed {
			continue
		}
		o.err = o.do(tx)
		if o.failed = o.err != nil && !errors.As(o.err, new(rejection)); o.failed {
			return false, true
		}
		changed = changed || o.err == nil
	}
	return changed, false
}

// open opens the file as soon as nothing else has it open. bbolt's own waiting tries every 50
// ms, which is ten times what an operation takes.
func (s *store) open(ctx context.Context, readOnly bool) (*bbolt.DB, error) {
	pause := firstPause
	for {
		if err := ctx.Err(); err != nil {
			return nil, context.Cause(ctx)
		}
		db, err := bbolt.Open(s.path, 0o600, &bbolt.Options{Timeout: time.Nanosecond, ReadOnly: readOnly, FreelistType: bbolt.FreelistMapType})
		if !errors.Is(err, berrors.ErrTimeout) {
			return db, err
		}
		timer := time.NewTimer(pause/2 + rand.N(pause))
		select {
		case <-ctx.Done():
			timer.Stop()
		case <-timer.C:
		}
		pause = min(2*pause, lastPause)
	}
}

// How long to wait before the next try at a file that is open elsewhere.
const (
	firstPause = 200 * time.Microsecond
	lastPause  = 2 * time.Millisecond
)

// syncDir makes the name of a new file durable.
func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}
