package main

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/txmgr/txmgr/client"
	"github.com/txmgr/txmgr/txn"
)

// remembered is how many of its latest transactions a caller keeps, to check them after a kill.
const remembered = 64

// load is a set of callers, each of which makes one pair after the other, until they are stopped.
type load struct {
	client *client.Client
	stop   context.CancelFunc
	done   sync.WaitGroup

	mu       sync.Mutex // guards the rest
	since    time.Time  // pairs that begin after it are checked
	first    []time.Time
	served   chan struct{} // closed when every caller has completed a pair that began after since
	left     int
	acked    [][]txn.ID // committed, by caller, the latest last
	pairs    int
	failures map[string]int
}

func drive(ctx context.Context, c *client.Client, callers int) *load {
	ctx, stop := context.WithCancel(ctx)
	l := &load{client: c, stop: stop, first: make([]time.Time, callers), acked: make([][]txn.ID, callers), failures: make(map[string]int)}
	for caller := range callers {
		l.done.Go(func() {
			for ctx.Err() == nil {
				l.pair(ctx, caller)
			}
		})
	}
	return l
}

func (l *load) pair(ctx context.Context, caller int) {
	began := time.Now()
	b, err := l.client.Begin(ctx, txn.Options{Name: "transfer"})
	if err == nil {
		_, err = l.client.Commit(ctx, b.ID, txn.CommitRequest{})
	}
	ended := time.Now()
	if ctx.Err() != nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if err != nil {
		code := string(txn.CodeOf(err))
		if l.failures[code]++; l.failures[code] <= 3 {
			progressf("a call failed: %v", err)
		}
		return
	}
	l.pairs++
	l.acked[caller] = append(l.acked[caller], b.ID)
	if n := len(l.acked[caller]); n > 2*remembered {
		l.acked[caller] = append(l.acked[caller][:0], l.acked[caller][n-remembered:]...)
	}
	if l.left > 0 && l.first[caller].IsZero() && began.After(l.since) {
		l.first[caller] = ended
		if l.left--; l.left == 0 {
			close(l.served)
		}
	}
}

// from begins a check of the pairs that begin after t, and returns the transactions that were
// committed recently.
func (l *load) from(t time.Time) (acked []txn.ID) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.since, l.served, l.left = t, make(chan struct{}), len(l.first)
	clear(l.first)
	for _, ids := range l.acked {
		acked = append(acked, ids[max(0, len(ids)-remembered):]...)
	}
	return acked
}

// awaitService waits until every caller has completed a pair again, and returns the times of the
// first and the last caller.
func (l *load) awaitService(ctx context.Context) (first, last time.Time, err error) {
	t := time.NewTimer(2 * time.Minute)
	defer t.Stop()
	select {
	case <-l.served:
	case <-t.C:
		l.mu.Lock()
		defer l.mu.Unlock()
		return first, last, fmt.Errorf("2 minutes later %d of %d callers are not served again", l.left, len(l.first))
	case <-ctx.Done():
		return first, last, context.Cause(ctx)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	first, last = l.first[0], l.first[0]
	for _, t := range l.first {
		if t.Before(first) {
			first = t
		}
		if t.After(last) {
			last = t
		}
	}
	return first, last, nil
}

// end stops the callers.
func (l *load) end() {
	l.stop()
	l.done.Wait()
}
