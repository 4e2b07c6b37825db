package node

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/txmgr/txmgr/txn"
	"github.com/txmgr/txmgr/txn/admin"
)

// BenchmarkPairs measures begin+commit pairs of the embedded coordinator, each call durable
// before the next, by the number of transactions in flight. It reports pairs per second, the
// 99th percentile of a pair's duration, and fdatasync calls per command.
func BenchmarkPairs(b *testing.B) {
	for _, flying := range []int{1, 64, 256, 1024} {
		b.Run(fmt.Sprint(flying), func(b *testing.B) {
			n := open(b, b.TempDir())
			pairs(b, n, flying)
		})
	}
}

func pairs(b *testing.B, n *Node, flying int) {
	before := status(b, n)
	left := make(chan struct{}, flying)
	times := make([][]time.Duration, flying)
	var wg sync.WaitGroup
	b.ResetTimer()
	start := time.Now()
	for w := range flying {
		wg.Go(func() {
			ctx := context.Background()
			for range left {
				t := time.Now()
				x, err := n.Begin(ctx, txn.Options{Name: "transfer"})
				if err == nil {
					_, err = n.Commit(ctx, x.ID, txn.CommitRequest{})
				}
				if err != nil {
					b.Error(err)
				}
				times[w] = append(times[w], time.Since(t))
			}
		})
	}
	for range b.N {
		left <- struct{}{}
	}
	close(left)
	wg.Wait()
	took := time.Since(start)
	b.StopTimer()
	all := slices.Concat(times...)
	slices.Sort(all)
	after := status(b, n)
	b.ReportMetric(float64(b.N)/took.Seconds(), "pairs/s")
	b.ReportMetric(float64(all[len(all)*99/100].Microseconds())/1000, "p99-ms")
	b.ReportMetric(float64(after.Syncs-before.Syncs)/float64(after.Commands-before.Commands), "fdatasyncs/command")
}

func status(b *testing.B, n *Node) admin.Status {
	b.Helper()
	s, err := n.Admin().Status(context.Background())
	if err != nil {
		b.Fatal(err)
	}
	return s
}
