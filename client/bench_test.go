package client_test

import (
	"context"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/txmgr/txmgr/client"
	"github.com/txmgr/txmgr/server/servertest"
	"github.com/txmgr/txmgr/txn"
)

// instant decides at once and keeps nothing: only the transport is measured.
type instant struct{ *servertest.Fake }

func (instant) Begin(_ context.Context, o txn.Options) (txn.BeginResult, error) {
	return txn.BeginResult{ID: o.ID, Timeout: o.Timeout, SurvivalIndex: 301, ExpiryTick: 4711}, nil
}

func (instant) Commit(context.Context, txn.ID, txn.CommitRequest) (txn.Outcome, error) {
	return txn.Outcome{State: txn.Committed}, nil
}

// BenchmarkPairs is one begin and one commit per operation, client and server in
// one process.
func BenchmarkPairs(b *testing.B) {
	for _, way := range []struct {
		name  string
		unary bool
	}{{"pipe", false}, {"unary", true}} {
		for _, callers := range []int{1, 16, 64, 256, 1024} {
			b.Run(fmt.Sprintf("%s/callers=%d", way.name, callers), func(b *testing.B) {
				addr := serve(b, instant{servertest.New()})
				c := open(b, client.Config{Address: addr, Unary: way.unary})
				pairs(b, c, callers)
			})
		}
	}
}

func pairs(b *testing.B, m txn.Manager, callers int) {
	ctx := context.Background()
	if _, err := m.Begin(ctx, txn.Options{}); err != nil {
		b.Fatal(err)
	}
	var left atomic.Int64
	left.Store(int64(b.N))
	var wg sync.WaitGroup
	runtime.GC()
	b.ReportAllocs()
	b.ResetTimer()
	started, burnt := time.Now(), cpu()
	for range callers {
		wg.Go(func() {
			for left.Add(-1) >= 0 {
				t, err := m.Begin(ctx, txn.Options{Timeout: 30 * time.Second})
				if err == nil {
					_, err = m.Commit(ctx, t.ID, txn.CommitRequest{})
				}
				if err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
	b.ReportMetric(float64(b.N)/time.Since(started).Seconds(), "pairs/s")
	b.ReportMetric(float64((cpu()-burnt).Microseconds())/float64(b.N), "cpu-us/pair")
}

// cpu is the processor time of this process so far: unlike the wall clock, it
// can be compared when the machine has other work.
func cpu() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
