package cluster

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/txmgr/txmgr/client"
	"github.com/txmgr/txmgr/internal/rig"
	"github.com/txmgr/txmgr/txn"
)

// abandonedTxs begins transactions and abandons them to their deadlines. All times are of this
// process's monotonic clock.
type abandonedTxs struct {
	t *testing.T
	c *client.Client

	mu      sync.Mutex      // guards all below
	late    []time.Duration // as the caller saw it, from before the begin
	decided []time.Duration // as the leader's wall clock had it, from the answer to the begin
	unknown int             // those whose end was not seen in time
}

// work keeps n transactions abandoned until ctx ends, and returns when all have ended.
func (s *abandonedTxs) work(ctx context.Context, n int) {
	var working sync.WaitGroup
	for range n {
		working.Go(func() {
			for ctx.Err() == nil {
				if err := s.abandon(ctx, 500*time.Millisecond+rand.N(10*time.Second)); err != nil {
					rig.Sleep(ctx, 200*time.Millisecond)
				}
			}
		})
	}
	working.Wait()
}

// abandon begins a transaction and waits until it is rolled back.
func (s *abandonedTxs) abandon(ctx context.Context, timeout time.Duration) error {
	id, began := rig.NewID(), time.Now()
	if _, err := s.c.Begin(ctx, txn.Options{ID: id, Name: "sleeper", Timeout: timeout}); err != nil {
		return err
	}
	if err := s.watch(id, began, time.Now(), timeout); !errors.Is(err, errTimedOut) {
		return err
	}
	return nil
}

// errTimedOut means that a transaction ended at its deadline, as it should.
var errTimedOut = errors.New("its deadline has passed")

// watch waits until a transaction is decided, which only its deadline may do, and records the lag;
// too early fails the test. It does not return nil.
func (s *abandonedTxs) watch(id txn.ID, began, begun time.Time, timeout time.Duration) error {
	ctx, cancel := context.WithTimeout(context.Background(), timeout+2*waitTimeout)
	defer cancel()
	var info txn.Info
	err := rig.Retry(ctx, func() (err error) {
		info, err = s.c.Wait(ctx, id, txn.UntilDecided)
		if errors.Is(err, txn.ErrUnavailable) {
			return err
		}
		if err != nil {
			s.t.Errorf("%v, which was begun: %v", id, err)
			cancel()
		}
		return err
	})
	took := time.Since(began)
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case err != nil:
		s.unknown++
		return fmt.Errorf("waiting for the deadline: %w", err)
	case info.State.Decided() && info.Cause == txn.CauseTimeout && took < timeout:
		s.t.Errorf("%v was rolled back by its timeout of %v after %v: too early", id, timeout, took)
	case info.Cause != txn.CauseTimeout:
		s.t.Errorf("%v was left to its deadline and ended %v, cause %v, reason %q", id, info.State, info.Cause, info.Reason)
	}
	s.late = append(s.late, took-timeout)
	s.decided = append(s.decided, info.Decided.Sub(begun)-timeout)
	return errTimedOut
}

// lateness describes the lags of the deadlines, and returns their number and the largest one that
// was seen.
func (s *abandonedTxs) lateness() (n int, most time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	n, p50, p99, most := quantiles(s.late)
	_, d50, d99, last := quantiles(s.decided)
	s.t.Logf("%d deadlines, none early; decided after them by %v in the middle, %v at p99, %v at most; seen by %v, %v, %v", n, d50, d99, last, p50, p99, most)
	return n, most
}

func quantiles(all []time.Duration) (n int, p50, p99, most time.Duration) {
	if len(all) == 0 {
		return 0, 0, 0, 0
	}
	sorted := slices.Sorted(slices.Values(all))
	at := func(q float64) time.Duration { return sorted[int(q*float64(len(sorted)-1))].Round(time.Millisecond) }
	return len(sorted), at(0.5), at(0.99), at(1)
}
