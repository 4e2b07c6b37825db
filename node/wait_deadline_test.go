package node

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/txmgr/txmgr/txn"
)

// TestWaitsThatTimeOutBesideWrites: waits whose own time runs out while entries are applied do not stop the node. The
// answer to such a wait once read the machine twice, one reading inside the other: an entry that was about to be applied
// in between waited for the first reading, and the second reading for the entry.
func TestWaitsThatTimeOutBesideWrites(t *testing.T) {
	failed := make(chan error, 1)
	n, err := tryOpen(t, t.TempDir(), func(c *Config) { c.OnFailure = func(err error) { failed <- err } })
	if err != nil {
		t.Fatal(err)
	}
	waited, err := n.Begin(t.Context(), txn.Options{Timeout: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	stop := make(chan struct{})
	var waits, writes sync.WaitGroup
	var timedOut atomic.Int64
	for range 20 {
		waits.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				short, cancel := context.WithTimeout(ctx, 100*time.Microsecond)
				if _, err := n.Wait(short, waited.ID, txn.UntilFinished); !errors.Is(err, txn.ErrWaitTimeout) {
					t.Errorf("a short wait for a transaction that stays open: %v", err)
				}
				cancel()
				timedOut.Add(1)
			}
		})
	}
	for range 4 {
		writes.Go(func() {
			// A reading inside a reading blocks only if a write begins between the two: so many
			// attempts that chance does not decide.
			for written := 0; written < 500 || timedOut.Load() < 200_000 && ctx.Err() == nil; written++ {
				b, err := n.Begin(ctx, txn.Options{Timeout: time.Hour})
				if err == nil {
					_, err = n.Commit(ctx, b.ID, txn.CommitRequest{})
				}
				if err != nil {
					t.Errorf("a write beside waits that time out: %v", err)
					return
				}
			}
		})
	}
	written := make(chan struct{})
	go func() { writes.Wait(); close(written) }()
	select {
	case <-written:
	case err := <-failed:
		// It cannot be closed either: nothing but the end of the process is left.
		t.Fatalf("the node applies no entry while waits time out: %v", err)
	}
	close(stop)
	waits.Wait()
	if err := n.Close(); err != nil {
		t.Error(err)
	}
}
