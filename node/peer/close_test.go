package peer

import (
	"errors"
	"sync"
	"testing"

	"github.com/hashicorp/raft"

	"github.com/txmgr/txmgr/txn"
)

// Servers can be closed at any time, twice, and under full load; goleak finds goroutines
// that remain.
func TestCloseAnyTime(t *testing.T) {
	for i := range 30 {
		a, b := start(t, "n_a"), start(t, "n_b")
		b.Transport()
		var work sync.WaitGroup
		for range 4 {
			work.Go(func() {
				for {
					if _, err := a.Hello(t.Context(), b.Addr()); err != nil {
						return
					}
				}
			})
			work.Go(func() {
				for {
					c, err := a.dial(t.Context(), b.Addr(), frameRaft, "n_b")
					if err != nil {
						return
					}
					c.Close()
				}
			})
		}
		first, second := a, b
		if i%2 == 0 {
			first, second = b, a
		}
		for range 2 {
			if err := first.Close(); err != nil {
				t.Error(err)
			}
		}
		work.Wait()
		if err := second.Close(); err != nil {
			t.Error(err)
		}
	}
}

func TestClosed(t *testing.T) {
	a, b := start(t, "n_a"), start(t, "n_b")
	if err := a.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := a.Hello(testContext(t), b.Addr()); !errors.Is(err, txn.ErrUnavailable) {
		t.Errorf("hello from a closed port: %v", err)
	}
	// A transport that was not requested before is closed, too.
	if err := a.Transport().RequestVote("n_b", raft.ServerAddress(b.Addr()), &raft.RequestVoteRequest{}, &raft.RequestVoteResponse{}); !errors.Is(err, txn.ErrUnavailable) {
		t.Errorf("a vote from a closed port: %v", err)
	}
	if _, err := b.Hello(testContext(t), a.Addr()); !errors.Is(err, txn.ErrUnavailable) {
		t.Errorf("hello to a closed port: %v", err)
	}
	if err := a.Reload(); err != nil || !a.CertificateExpires().IsZero() {
		t.Errorf("certificates where there are none: %v", err)
	}
}
