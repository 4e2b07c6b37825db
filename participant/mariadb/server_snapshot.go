package mariadb

import (
	"context"
	"fmt"
	"time"

	"github.com/txmgr/txmgr/participant/mariadb/internal/innodb"
	"github.com/txmgr/txmgr/participant/mariadb/internal/xa"
)

// serverSnapshot is the state of the server at one time, read in this order: its prepared branches,
// then the transactions that are bound to connections.
type serverSnapshot struct {
	start       int64 // of the server
	prepared    map[xa.Name]bool
	connections map[uint64]bool // connections that InnoDB has a transaction for
}

// isPrepared reports whether a branch is prepared.
func (c *serverSnapshot) isPrepared(n xa.Name) bool {
	n.Format = 0 // the format does not distinguish branches
	return c.prepared[n]
}

// isBound reports whether the recorded connection may hold its branch. A connection that does not
// cannot get it back: neither while it is open, nor while it is closing, when the server has
// released the branch and InnoDB has not.
func (c *serverSnapshot) isBound(s SessionRef) bool {
	return c.start == s.Start && c.connections[s.Conn]
}

// snapshotRequest is a snapshot that is to be taken, for all calls that wait for it.
type snapshotRequest struct {
	done chan struct{} // closed when the others are set
	c    *serverSnapshot
	err  error
}

// snapshotTimeout bounds one snapshot.
const snapshotTimeout = 10 * time.Second

// snapshot returns a snapshot that begins after the call. Since InnoDB refreshes INNODB_TRX only
// every tenth of a second, all calls that wait share the next one.
func (r *resourceManager) snapshot(ctx context.Context) (*serverSnapshot, error) {
	r.mu.Lock()
	if r.nextSnapshot == nil {
		r.nextSnapshot = &snapshotRequest{done: make(chan struct{})}
		if !r.snapshotRunning {
			r.snapshotRunning = true
			go r.runSnapshots()
		}
	}
	mine := r.nextSnapshot
	r.mu.Unlock()
	select {
	case <-mine.done:
		return mine.c, mine.err
	case <-ctx.Done():
		return nil, fmt.Errorf("wait for a new read of INNODB_TRX: %w", ctx.Err())
	}
}

// runSnapshots takes one snapshot after the other, as long as a call waits for one.
func (r *resourceManager) runSnapshots() {
	for {
		r.mu.Lock()
		now := r.nextSnapshot
		r.nextSnapshot = nil
		if now == nil {
			r.snapshotRunning = false
			r.mu.Unlock()
			return
		}
		r.mu.Unlock()
		ctx, cancel := context.WithTimeout(r.calls.Closing(), snapshotTimeout)
		now.c, now.err = r.takeSnapshot(ctx)
		cancel()
		close(now.done)
	}
}

func (r *resourceManager) takeSnapshot(ctx context.Context) (*serverSnapshot, error) {
	c := &serverSnapshot{prepared: map[xa.Name]bool{}, connections: map[uint64]bool{}}
	names, err := r.xaRecover(ctx)
	if err != nil {
		return nil, err
	}
	for _, n := range names {
		n.Format = 0
		c.prepared[n] = true
	}
	if c.start, err = r.start(ctx); err != nil {
		return c, err
	}
	all, err := innodb.Transactions(ctx, r.db)
	for _, x := range all {
		if x.Conn != 0 {
			c.connections[x.Conn] = true
		}
	}
	return c, err
}

// start is the second in which the server started.
func (r *resourceManager) start(ctx context.Context) (start int64, err error) {
	err = r.db.QueryRowContext(ctx, "SELECT "+startQuery).Scan(&start)
	return start, err
}
