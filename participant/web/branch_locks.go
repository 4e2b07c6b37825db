package web

import (
	"context"
	"errors"
	"fmt"
	"sync"
)

// branchLocks lets one request at a time work on a branch in this process. The row's lock does so
// for all processes; but a request that waits for a row occupies one of the few connections of
// the service's database.
type branchLocks struct {
	mu    sync.Mutex // guards locks and all refs
	locks map[string]*branchLock
}

// branchLock is the lock of one branch.
type branchLock struct {
	sem  chan struct{} // has one element while the lock is held
	refs int           // requests that hold it or wait for it; guarded by branchLocks.mu
}

var errCallerGone = errors.New("the caller has gone away")

// lock waits for the lock of a branch, until ctx or gone ends. The caller calls leave to release
// it.
func (t *branchLocks) lock(ctx context.Context, gone <-chan struct{}, xid string) (leave func(), err error) {
	t.mu.Lock()
	mine := t.locks[xid]
	if mine == nil {
		mine = &branchLock{sem: make(chan struct{}, 1)}
		t.locks[xid] = mine
	}
	mine.refs++
	t.mu.Unlock()
	select {
	case mine.sem <- struct{}{}:
		return func() { <-mine.sem; t.drop(xid, mine) }, nil
	case <-ctx.Done():
		err = context.Cause(ctx)
	case <-gone:
		err = errCallerGone
	}
	t.drop(xid, mine)
	return nil, fmt.Errorf("another request for the branch is under way: %w", err)
}

func (t *branchLocks) drop(xid string, mine *branchLock) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if mine.refs--; mine.refs == 0 {
		delete(t.locks, xid)
	}
}
