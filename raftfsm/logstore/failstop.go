package logstore

import (
	"fmt"
	"runtime/debug"
	"sync/atomic"
)

// failStop keeps the first failure of a store, which ends the store. The zero value has none. It needs no
// lock, and is safe for concurrent use.
type failStop struct {
	first atomic.Pointer[failure]
}

// failure returns the first failure, nil if there is none.
func (s *failStop) failure() *failure { return s.first.Load() }

// fail makes err the failure, unless it is nil. The first result is set for the first failure
// only; the second is the failure that counts.
func (s *failStop) fail(op string, err error) (*failure, error) {
	if err == nil {
		return nil, nil
	}
	f := &failure{op: op, cause: err}
	if s.first.CompareAndSwap(nil, f) {
		return f, f
	}
	return nil, s.first.Load()
}

// panicError is a panic of bbolt, or a fault while it touches a mapped file: a read error of the disk is delivered as
// SIGBUS.
type panicError struct {
	path   string
	reason any
}

func (e *panicError) Error() string { return fmt.Sprintf("bbolt panicked on %s: %v", e.path, e.reason) }

// guard runs fn and turns a panic or a fault into a panicError.
func guard(path string, fn func() error) (err error) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		if r := recover(); r != nil {
			err = &panicError{path, r}
		}
	}()
	return fn()
}
