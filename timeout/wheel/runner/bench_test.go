package runner

import (
	"testing"
	"time"

	"github.com/txmgr/txmgr/timeout/wheel"
)

// BenchmarkPair adds a task and cancels it, with the clock and the lock, beside a runtime timer of the same time: from one
// goroutine, and from as many as there are processors.
func BenchmarkPair(b *testing.B) {
	r, err := Start(Config[int]{Handle: func(*wheel.Task[int]) {}})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		r.Stop()
		<-r.Done()
	})
	// Others wait, so that the goroutine need not be woken.
	r.Add(&wheel.Task[int]{}, time.Minute)
	task := func() {
		t := &wheel.Task[int]{}
		if !r.Add(t, time.Hour) || !r.Cancel(t) {
			panic("lost a task")
		}
	}
	timer := func() {
		if !time.AfterFunc(time.Hour, func() {}).Stop() {
			panic("lost a timer")
		}
	}
	for _, c := range []struct {
		name string
		pair func()
	}{{"runner", task}, {"afterfunc", timer}} {
		b.Run(c.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				c.pair()
			}
		})
		b.Run(c.name+"/parallel", func(b *testing.B) {
			b.RunParallel(func(pb *testing.PB) {
				for pb.Next() {
					c.pair()
				}
			})
		})
	}
}
