package web

import (
	"context"
	"errors"
	"fmt"
	"sync"
)

// branchLocks lets one request at a time work on a branch in this process. The row does
// that for all processes; but who waits for a row holds a connection of the
// service's database, of which there are few.
type branchLocks struct {
	mu    sync.Mutex // guards waiting
	locks map[string]*branchLock
}

// branchLock is one branch's.
type branchLock struct {
	sem  chan struct{} // holds one element while somebody works
	refs int           // who work or wait; guarded by turns.mu
}

var errCallerGone = errors.New("the caller has gone away")

// lock waits for the branch's turn; whoever gives up before, by ctx or gone, gets
// none.
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
