package adaptive

import (
	"math/rand/v2"
	"sync"
	"testing"
	"time"
)

// BenchmarkRecord is what is recorded of a task: its time of service, and its time
// from submission to end. Apart from clock readings it is to cost 25 ns at most.
func BenchmarkRecord(b *testing.B) {
	var times [1024]time.Duration
	for i := range times {
		times[i] = time.Duration(rand.ExpFloat64() * float64(20*time.Millisecond))
	}
	b.Run("alone", func(b *testing.B) {
		s := newRecorder().shard()
		i := 0
		for b.Loop() {
			s.service.record(times[i%1024])
			s.sojourn.record(times[(i+1)%1024])
			i++
		}
	})
	b.Run("parallel", func(b *testing.B) {
		r := newRecorder()
		b.RunParallel(func(pb *testing.PB) {
			s := r.shard()
			for i := 0; pb.Next(); i++ {
				s.service.record(times[i%1024])
				s.sojourn.record(times[(i+1)%1024])
			}
		})
	})
	b.Run("one-shard", func(b *testing.B) { // for comparison
		s := newRecorder().shard()
		b.RunParallel(func(pb *testing.PB) {
			for i := 0; pb.Next(); i++ {
				s.service.record(times[i%1024])
				s.sojourn.record(times[(i+1)%1024])
			}
		})
	})
	b.Run("histogram-and-mutex", func(b *testing.B) { // for comparison
		var mu sync.Mutex
		var service, sojourn Histogram
		b.RunParallel(func(pb *testing.PB) {
			for i := 0; pb.Next(); i++ {
				mu.Lock()
				service.Record(times[i%1024])
				sojourn.Record(times[(i+1)%1024])
				mu.Unlock()
			}
		})
	})
	b.Run("clock", func(b *testing.B) { // for comparison: one reading
		start := time.Now()
		for b.Loop() {
			_ = time.Since(start)
		}
	})
}

// BenchmarkTick is the end of a window: reading the shards, taking the difference,
// and the optimizer's decision.
func BenchmarkTick(b *testing.B) {
	p := open(b, Config{Optimizer: Fixed(0)})
	knee, err := NewKnee(Knee{})
	if err != nil {
		b.Fatal(err)
	}
	s := p.records.shard()
	r := rand.New(rand.NewPCG(1, 1))
	p.control = control{ended: p.control.ended} // its own ticks are a second apart, and not measured
	var before, now, service, sojourn Histogram
	for b.Loop() {
		for range 100 {
			d := time.Duration(r.ExpFloat64() * float64(20*time.Millisecond))
			s.service.record(d)
			s.sojourn.record(d)
		}
		p.records.read(&now, &sojourn)
		service = now
		service.Sub(&before)
		before = now
		w := &Window{
			End: 500 * time.Millisecond, Limit: 8, Arrived: 100, Completed: 100, BusyTime: 4 * time.Second, BusyMax: 8,
			BoundTime: 500 * time.Millisecond, BoundCompleted: 100, Service: &service, Sojourn: &service,
		}
		if d := knee.Observe(w); d.Limit < 1 {
			b.Fatal(d)
		}
	}
}

// BenchmarkSubmit is an empty task from submission to end, from one goroutine and
// from as many as there are processors; and one by Do, which waits for it.
func BenchmarkSubmit(b *testing.B) {
	nothing := func() error { return nil }
	b.Run("one", func(b *testing.B) {
		p := open(b, Config{Optimizer: Fixed(32)})
		b.ReportAllocs()
		for b.Loop() {
			if err := p.Submit(b.Context(), nothing); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("parallel", func(b *testing.B) {
		p := open(b, Config{Optimizer: Fixed(32)})
		b.ReportAllocs()
		b.RunParallel(func(pb *testing.PB) {
			for pb.Next() {
				if err := p.Submit(b.Context(), nothing); err != nil {
					b.Error(err)
				}
			}
		})
	})
	b.Run("do", func(b *testing.B) {
		p := open(b, Config{Optimizer: Fixed(32)})
		b.ReportAllocs()
		for b.Loop() {
			if err := p.Do(b.Context(), nothing); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("feed", func(b *testing.B) {
		f := &endless{task: nothing, left: b.N, done: make(chan struct{})}
		f.pool = open(b, Config{Optimizer: Fixed(32), Feed: f})
		b.ReportAllocs()
		b.ResetTimer()
		f.pool.Offer(b.N, 0)
		<-f.done
	})
	b.Run("goroutine", func(b *testing.B) { // for comparison
		var wg sync.WaitGroup
		b.ReportAllocs()
		for b.Loop() {
			wg.Go(func() { _ = nothing() })
		}
		wg.Wait()
	})
}

// endless is a feed of so many tasks.
type endless struct {
	pool *Pool
	task Task
	done chan struct{}
	mu   sync.Mutex // guards left
	left int
}

func (f *endless) Next(int) Task {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.left == 0 {
		return nil
	}
	f.left--
	f.pool.Offer(f.left, 0)
	if f.left == 0 {
		close(f.done)
	}
	return f.task
}
