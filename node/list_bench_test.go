package node

import (
	"context"
	"sync"
	"testing"

	"github.com/txmgr/txmgr/txn"
	"github.com/txmgr/txmgr/txn/admin"
)

// BenchmarkListNewest lists the newest 200 of 166,000 retained outcomes.
func BenchmarkListNewest(b *testing.B) {
	const kept, newest = 166_000, 200
	n := open(b, b.TempDir(), slow)
	var filling sync.WaitGroup
	left := make(chan struct{}, 1024)
	for range cap(left) {
		filling.Go(func() {
			for range left {
				begun, err := n.Begin(context.Background(), txn.Options{Name: "transfer"})
				if err == nil {
					_, err = n.Commit(context.Background(), begun.ID, txn.CommitRequest{})
				}
				if err != nil {
					b.Error(err)
				}
			}
		})
	}
	for range kept {
		left <- struct{}{}
	}
	close(left)
	filling.Wait()
	if s := status(b, n); s.Finished != kept {
		b.Fatalf("%d outcomes are kept, want %d", s.Finished, kept)
	}
	for b.Loop() {
		found, err := n.List(context.Background(), admin.Filter{Limit: newest})
		if err != nil || len(found) != newest {
			b.Fatalf("%d found, %v", len(found), err)
		}
	}
}
