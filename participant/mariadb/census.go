package mariadb

import (
	"context"
	"fmt"
	"time"
)

// census is what the server held at one time, read in this order: its prepared
// branches, then the transactions that are bound to connections.
type census struct {
	start  int64 // of the server
	listed map[xaName]bool
	bound  map[uint64]bool // connections that InnoDB has a transaction for
}

// has reports whether a branch is prepared.
func (c *census) has(n xaName) bool {
	n.format = 0 // it does not make it another one
	return c.listed[n]
}

// holds reports whether the session's connection may have its branch. One that
// does not cannot get it back: neither when it lives, nor while it is on its way
// out, when the server has let go of the branch and InnoDB has not.
func (c *census) holds(s Session) bool { return c.start == s.Start && c.bound[s.Conn] }

// round is a census that is to be taken, for all who wait for it.
type round struct {
	done chan struct{} // closed when the others are set
	c    *census
	err  error
}

// censusTime bounds one census.
const censusTime = 10 * time.Second

// census takes a census that begins after the call. Since InnoDB tells news only
// every tenth of a second, all calls that wait share the next one.
func (r *resource) census(ctx context.Context) (*census, error) {
	r.mu.Lock()
	if r.next == nil {
		r.next = &round{done: make(chan struct{})}
		if !r.counting {
			r.counting = true
			go r.count()
		}
	}
	mine := r.next
	r.mu.Unlock()
	select {
	case <-mine.done:
		return mine.c, mine.err
	case <-ctx.Done():
		return nil, fmt.Errorf("wait for news of InnoDB: %w", ctx.Err())
	}
}

// count takes one census after the other, as long as somebody waits for one.
func (r *resource) count() {
	for {
		r.mu.Lock()
		now := r.next
		r.next = nil
		if now == nil {
			r.counting = false
			r.mu.Unlock()
			return
		}
		r.mu.Unlock()
		ctx, cancel := context.WithTimeout(r.closing, censusTime)
		now.c, now.err = r.takeCensus(ctx)
		cancel()
		close(now.done)
	}
}

func (r *resource) takeCensus(ctx context.Context) (*census, error) {
	c := &census{listed: map[xaName]bool{}, bound: map[uint64]bool{}}
	names, err := r.recovered(ctx)
	if err != nil {
		return nil, err
	}
	for _, n := range names {
		n.format = 0
		c.listed[n] = true
	}
	if c.start, err = r.start(ctx); err != nil {
		return c, err
	}
	all, err := r.transactions(ctx)
	for _, x := range all {
		if x.conn != 0 {
			c.bound[x.conn] = true
		}
	}
	return c, err
}

// start is the second in which the server started.
func (r *resource) start(ctx context.Context) (start int64, err error) {
	err = r.db.QueryRowContext(ctx, "SELECT "+startQuery).Scan(&start)
	return start, err
}
