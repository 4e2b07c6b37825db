package purgatory

import (
	"context"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// flag is a request that waits for a flag.
type flag struct {
	up   *atomic.Bool
	ends *atomic.Int64
}

func (f *flag) TryComplete() bool { return f.up.Load() }
func (f *flag) Complete(Outcome)  { f.ends.Add(1) }

// id is a key like those of transactions.
type id [16]byte

func keyOf(n int) (k id) {
	for i := range 8 {
		k[i] = byte(n >> (8 * i))
	}
	return k
}

// BenchmarkPark parks a request and completes it by a check of its key, among a number that are parked.
func BenchmarkPark(b *testing.B) {
	for _, parked := range []int{0, million} {
		for _, keys := range []int{1, 3} {
			b.Run(fmt.Sprintf("parked=%d/keys=%d", parked, keys), func(b *testing.B) {
				p := start[id](b)
				for n := range parked {
					if _, err := p.Park(&never{}, time.Hour, keyOf(-n-1)); err != nil {
						b.Fatal(err)
					}
				}
				runtime.GC()
				var up atomic.Bool
				var ends atomic.Int64
				watched := make([]id, keys)
				b.ReportAllocs()
				for n := 0; b.Loop(); n++ {
					for k := range watched {
						watched[k] = keyOf(n*keys + k)
					}
					up.Store(false)
					if _, err := p.Park(&flag{&up, &ends}, time.Minute, watched...); err != nil {
						b.Fatal(err)
					}
					up.Store(true)
					if p.Check(watched[0]) != 1 {
						b.Fatal("not completed")
					}
				}
			})
		}
	}
}

// BenchmarkParkParallel does the same from eight goroutines, each with keys of its own.
func BenchmarkParkParallel(b *testing.B) {
	p := start[id](b)
	const workers, each = 8, 2000
	var at int
	b.ReportAllocs()
	for b.Loop() {
		var wg sync.WaitGroup
		for w := range workers {
			wg.Go(func() {
				var up atomic.Bool
				var ends atomic.Int64
				for n := range each {
					key := keyOf((at+n)*workers + w)
					up.Store(false)
					_, _ = p.Park(&flag{&up, &ends}, time.Minute, key)
					up.Store(true)
					p.Check(key)
				}
				if ends.Load() != each {
					b.Errorf("%d of %d completed", ends.Load(), each)
				}
			})
		}
		wg.Wait()
		at += each
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*workers*each), "ns/request")
}

// BenchmarkExpire parks 100,000 requests and lets their deadlines come: those of all in one tick, or spread over a
// second. It reports what parking and expiring cost the process, a request, and how late the last one was.
func BenchmarkExpire(b *testing.B) {
	const many = 100_000
	for _, spread := range []time.Duration{0, time.Second} {
		b.Run(fmt.Sprint("spread=", spread), func(b *testing.B) {
			p := start[id](b)
			var up atomic.Bool
			var late time.Duration
			for b.Loop() {
				var ends atomic.Int64
				var last time.Time
				for n := range many {
					timeout := time.Second + spread*time.Duration(n)/many
					if _, err := p.Park(&flag{&up, &ends}, timeout, keyOf(n)); err != nil {
						b.Fatal(err)
					}
					last = time.Now().Add(timeout)
				}
				for ends.Load() < many {
					<-time.After(time.Millisecond)
				}
				late = max(late, time.Since(last))
			}
			b.ReportMetric(float64(late.Microseconds())/1000, "late-ms")
		})
	}
}

// BenchmarkWake wakes 100,000 requests that watch one key, and those of as many keys by CheckAll.
func BenchmarkWake(b *testing.B) {
	const many = 100_000
	for _, name := range []string{"one key", "own keys"} {
		b.Run(name, func(b *testing.B) {
			p := start[id](b)
			var longest time.Duration
			for b.Loop() {
				b.StopTimer()
				var up atomic.Bool
				var ends atomic.Int64
				for n := range many {
					key := keyOf(0)
					if name != "one key" {
						key = keyOf(n)
					}
					if _, err := p.Park(&flag{&up, &ends}, time.Hour, key); err != nil {
						b.Fatal(err)
					}
				}
				up.Store(true)
				b.StartTimer()
				began := time.Now()
				if name == "one key" {
					p.Check(keyOf(0))
				} else {
					p.CheckAll()
				}
				longest = max(longest, time.Since(began))
				if ends.Load() != many {
					b.Fatalf("%d of %d were woken", ends.Load(), many)
				}
			}
			b.ReportMetric(float64(longest.Microseconds())/1000, "longest-ms")
		})
	}
}

// BenchmarkWakeGoroutines wakes 100,000 goroutines that wait in Wait for one key, until the last has returned.
func BenchmarkWakeGoroutines(b *testing.B) {
	const many = 100_000
	p := start[id](b)
	var longest time.Duration
	for b.Loop() {
		b.StopTimer()
		var up atomic.Bool
		var wg sync.WaitGroup
		for range many {
			wg.Go(func() {
				if err := p.Wait(b.Context(), up.Load, time.Hour, id{}); err != nil {
					b.Error(err)
				}
			})
		}
		for p.Len() < many {
			runtime.Gosched()
		}
		up.Store(true)
		b.StartTimer()
		began := time.Now()
		p.Check(id{})
		wg.Wait()
		longest = max(longest, time.Since(began))
	}
	b.ReportMetric(float64(longest.Microseconds())/1000, "longest-ms")
}

// BenchmarkCheckNobody checks a key without watchers: the cost of a change for which no request
// waits.
func BenchmarkCheckNobody(b *testing.B) {
	for _, parked := range []int{0, 1000} {
		b.Run(fmt.Sprint("parked=", parked), func(b *testing.B) {
			p := start[id](b)
			for n := range parked {
				if _, err := p.Park(&never{}, time.Hour, keyOf(-n-1)); err != nil {
					b.Fatal(err)
				}
			}
			for n := 0; b.Loop(); n++ {
				p.Check(keyOf(n))
			}
		})
	}
}

// BenchmarkMemory reports the bytes of a parked request among a million, without those of the caller's own object; beside
// the heap, what the runtime keeps for its weak pointer and its cleanup, which does not shrink: it is true for the first
// run in a process; and how long a collection takes.
func BenchmarkMemory(b *testing.B) {
	for _, c := range []struct {
		name string
		key  func(n int) id
	}{
		{"own keys", keyOf},
		{"one key", func(int) id { return id{} }},
		{"ten waiters a key", func(n int) id { return keyOf(n / 10) }},
	} {
		b.Run(c.name, func(b *testing.B) {
			for b.Loop() {
				requests := make([]never, million)
				before, outside := heap()
				p := start[id](b)
				for n := range requests {
					if _, err := p.Park(&requests[n], time.Hour+time.Duration(n)*time.Millisecond, c.key(n)); err != nil {
						b.Fatal(err)
					}
				}
				full, beside := heap()
				began := time.Now()
				runtime.GC()
				b.ReportMetric(float64(time.Since(began).Microseconds())/1000, "GC-ms")
				b.ReportMetric(float64(full-before)/million, "B/request")
				b.ReportMetric(float64(beside-outside)/million, "B-beside/request")
				p.Stop()
				runtime.KeepAlive(requests)
				p.awaitCleanups(b)
			}
			b.ReportMetric(0, "ns/op")
		})
	}
}

// BenchmarkMemoryOfGoroutines reports the memory of the usual way to wait: a goroutine with a
// channel and the deadline of a context.
func BenchmarkMemoryOfGoroutines(b *testing.B) {
	const many = 100_000
	used := func() uint64 {
		var m runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&m)
		return m.HeapAlloc + m.StackInuse
	}
	for b.Loop() {
		before := used()
		ctx, cancel := context.WithCancel(b.Context())
		var waiting atomic.Int64
		var wg sync.WaitGroup
		for range many {
			wg.Go(func() {
				ctx, cancel := context.WithTimeout(ctx, time.Hour)
				defer cancel()
				poke := make(chan struct{}, 1)
				waiting.Add(1)
				select {
				case <-poke:
				case <-ctx.Done():
				}
			})
		}
		for waiting.Load() < many {
			runtime.Gosched()
		}
		b.ReportMetric(float64(used()-before)/many, "B/request")
		cancel()
		wg.Wait()
	}
	b.ReportMetric(0, "ns/op")
}
