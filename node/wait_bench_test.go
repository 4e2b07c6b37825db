package node

import (
	"errors"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/txmgr/txmgr/txn"
)

// crowd is how many wait in the benchmarks below.
const crowd = 100_000

// BenchmarkWake lets 100,000 callers wait for one transaction and commits it. It reports the memory
// of a waiting caller, goroutine included, how long the commit took, and how long it was from its
// call until all of them had their answer.
func BenchmarkWake(b *testing.B) {
	n := open(b, b.TempDir(), slow)
	var bytes, commit, woken float64
	for b.Loop() {
		begun, err := n.Begin(b.Context(), txn.Options{Timeout: time.Hour})
		if err != nil {
			b.Fatal(err)
		}
		id := begun.ID
		before := inUse()
		var wg sync.WaitGroup
		for range crowd {
			wg.Go(func() {
				if info, err := n.Wait(b.Context(), id, txn.UntilDecided); err != nil || info.State != txn.Committed {
					b.Errorf("%v, %v", info.State, err)
				}
			})
		}
		for n.notifier.Waiting() < crowd {
			runtime.Gosched()
		}
		bytes += float64(inUse()-before) / crowd
		began := time.Now()
		if _, err := n.Commit(b.Context(), id, txn.CommitRequest{}); err != nil {
			b.Fatal(err)
		}
		commit += time.Since(began).Seconds() * 1000
		wg.Wait()
		woken += time.Since(began).Seconds() * 1000
	}
	b.ReportMetric(bytes/float64(b.N), "B/waiter")
	b.ReportMetric(commit/float64(b.N), "commit-ms")
	b.ReportMetric(woken/float64(b.N), "woken-ms")
	b.ReportMetric(0, "ns/op")
}

// BenchmarkParkedCommit lets commits wait for a vote that does not come, with a goroutine each and without. It reports what
// one of them takes while it does.
func BenchmarkParkedCommit(b *testing.B) {
	const many = 20_000
	for _, form := range []string{"Commit", "CommitThen"} {
		b.Run(form, func(b *testing.B) {
			n := open(b, b.TempDir(), slow, with(participantMap{"shop": hangs()}))
			var bytes float64
			for b.Loop() {
				begun, err := n.Begin(b.Context(), txn.Options{Timeout: time.Hour, Branches: []txn.Enlistment{{Participant: "shop"}}})
				if err != nil {
					b.Fatal(err)
				}
				id := begun.ID
				before := inUse()
				var wg sync.WaitGroup
				wg.Add(many)
				then := func(_ txn.Outcome, err error) {
					if !errors.Is(err, txn.ErrRolledBack) {
						b.Error(err)
					}
					wg.Done()
				}
				workers := make(chan struct{}, 64)
				for range many {
					if form == "Commit" {
						go func() { then(n.Commit(b.Context(), id, txn.CommitRequest{})) }()
						continue
					}
					workers <- struct{}{}
					go func() {
						n.Async().Commit(b.Context(), id, txn.CommitRequest{}, then)
						<-workers
					}()
				}
				for n.notifier.Waiting() < many {
					runtime.Gosched()
				}
				bytes += float64(inUse()-before) / many
				if _, err := n.Rollback(b.Context(), id, "enough"); err != nil {
					b.Fatal(err)
				}
				wg.Wait()
			}
			b.ReportMetric(bytes/float64(b.N), "B/commit")
			b.ReportMetric(0, "ns/op")
		})
	}
}

// inUse is what the heap and the stacks take, without garbage.
func inUse() int64 {
	for range 3 {
		runtime.GC()
	}
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc + m.StackInuse)
}
