package adaptive

import (
	"math/rand/v2"
	"runtime"
	"sync"
	"testing"
	"time"
)

// BenchmarkRecord is the recording of a task: its service time, and its time
// from submission to end. Apart from clock readings it should cost 25 ns at most.
func BenchmarkRecord(b *testing.B) {
	var durations [1024]time.Duration
	for i := range durations {
		durations[i] = time.Duration(rand.ExpFloat64() * float64(20*time.Millisecond))
	}
	b.Run("both", func(b *testing.B) {
		var times times
		i := 0
		for b.Loop() {
			times.service.Record(durations[i%1024])
			times.sojourn.Record(durations[(i+1)%1024])
			i++
		}
	})
	b.Run("clock", func(b *testing.B) { // for comparison: one reading
		start := time.Now()
		for b.Loop() {
			_ = time.Since(start)
		}
	})
}

// BenchmarkTick is the end of a window: taking it, the optimizer's decision, and the
// statistics.
func BenchmarkTick(b *testing.B) {
	p := open(b, Config{Start: 1 << 10})
	p.stop() // the benchmark takes the controller's place
	<-p.controller.ended
	r := rand.New(rand.NewPCG(1, 1))
	var durations [1024]time.Duration
	for i := range durations {
		durations[i] = time.Duration(r.ExpFloat64() * float64(20*time.Millisecond))
	}
	for b.Loop() {
		for _, d := range durations[:100] {
			p.times.service.Record(d)
			p.times.sojourn.Record(d)
		}
		p.counters.completed += 100
		p.counters.boundCompleted += 100
		p.endWindow()
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
		f := &counted{task: nothing, ready: time.Now()}
		f.pool = open(b, Config{Optimizer: Fixed(32), TaskSource: f})
		b.ReportAllocs()
		for b.Loop() {
			f.change(1)
		}
		for f.change(0) > 0 {
			runtime.Gosched()
		}
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

// counted is a task source of equal tasks.
type counted struct {
	pool  *Pool
	task  Task
	ready time.Time
	mu    sync.Mutex // guards left
	left  int
}

// change adds tasks, or takes one, and returns how many there are then; -1 if there was
// none to be taken.
func (f *counted) change(by int) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.left+by < 0 {
		return -1
	}
	f.left += by
	f.pool.SetReady(f.left, 0)
	return f.left
}

func (f *counted) Next(int) (Task, time.Time) {
	if f.change(-1) < 0 {
		return nil, time.Time{}
	}
	return f.task, f.ready
}
