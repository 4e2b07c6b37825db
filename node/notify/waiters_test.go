package notify

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/txmgr/txmgr/internal/waittest"
	"github.com/txmgr/txmgr/timeout/purgatory"
	"github.com/txmgr/txmgr/txn"
	"github.com/txmgr/txmgr/txn/machine"
)

// TestMoreChangesThanAreNoted: while a waiter is checked more changes come than are recorded one by
// one. The waiters of those that were recorded before are checked all the same.
func TestMoreChangesThanAreNoted(t *testing.T) {
	n, err := New(nil)
	if err != nil {
		t.Fatal(err)
	}
	defer n.Close()
	wait := func(id txn.ID, look func() bool) <-chan error {
		ended := make(chan error, 1)
		parked := n.Waiting()
		go func() { ended <- n.Wait(t.Context(), id, look) }()
		waittest.Until(t, "parked", func() bool { return n.Waiting() > parked })
		return ended
	}
	var slow, over atomic.Bool
	entered, leave := make(chan struct{}), make(chan struct{})
	first := wait(txn.ID{1}, func() bool {
		if slow.Load() {
			close(entered)
			<-leave
		}
		return slow.Load()
	})
	second := wait(txn.ID{2}, over.Load)
	slow.Store(true)
	n.Publish([]machine.Change{{ID: txn.ID{1}}})
	<-entered
	over.Store(true)
	n.Publish([]machine.Change{{ID: txn.ID{2}}})
	for range 2 {
		n.Publish(make([]machine.Change, maxChanged))
	}
	if noted := len(n.waiters.changed); noted > maxChanged {
		t.Errorf("%d changes are noted", noted)
	}
	close(leave)
	for _, ended := range []<-chan error{first, second} {
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}
}

// TestCloseEndsEveryWait: also those that begin at that moment, while changes come.
func TestCloseEndsEveryWait(t *testing.T) {
	for range 50 {
		n, err := New(nil)
		if err != nil {
			t.Fatal(err)
		}
		var wg sync.WaitGroup
		start := make(chan struct{})
		for i := range 40 {
			wg.Go(func() {
				<-start
				if err := n.Wait(context.Background(), txn.ID{byte(i % 4)}, func() bool { return false }); !errors.Is(err, purgatory.ErrStopped) {
					t.Errorf("the wait: %v", err)
				}
			})
		}
		for i := range 4 {
			wg.Go(func() {
				<-start
				for range 100 {
					n.Publish([]machine.Change{{ID: txn.ID{byte(i)}}})
					n.WakeAll()
				}
			})
		}
		close(start)
		n.Close()
		wg.Wait()
		n.waiters.checking.Wait()
		if left := n.Waiting(); left != 0 {
			t.Fatalf("%d requests are left", left)
		}
	}
}
