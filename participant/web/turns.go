package web

import (
	"context"
	"errors"
	"fmt"
	"sync"
)

// turns lets one request at a time work on a branch in this process. The row does
// that for all processes; but who waits for a row holds a connection of the
// service's database, of which there are few.
type turns struct {
	mu      sync.Mutex // guards waiting
	waiting map[string]*turn
}

// turn is one branch's.
type turn struct {
	seat  chan struct{} // holds one element while somebody works
	users int           // who work or wait; guarded by turns.mu
}

var errGone = errors.New("the caller has gone away")

// take waits for the branch's turn; whoever gives up before, by ctx or gone, gets
// none.
func (t *turns) take(ctx context.Context, gone <-chan struct{}, xid string) (leave func(), err error) {
	t.mu.Lock()
	mine := t.waiting[xid]
	if mine == nil {
		mine = &turn{seat: make(chan struct{}, 1)}
		t.waiting[xid] = mine
	}
	mine.users++
	t.mu.Unlock()
	select {
	case mine.seat <- struct{}{}:
		return func() { <-mine.seat; t.drop(xid, mine) }, nil
	case <-ctx.Done():
		err = context.Cause(ctx)
	case <-gone:
		err = errGone
	}
	t.drop(xid, mine)
	return nil, fmt.Errorf("another request for the branch is under way: %w", err)
}

func (t *turns) drop(xid string, mine *turn) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if mine.users--; mine.users == 0 {
		delete(t.waiting, xid)
	}
}
