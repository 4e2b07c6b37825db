package runner

import (
	"math"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/txmgr/txmgr/timeout/wheel"
)

// After Stop nothing is passed on. Remaining tasks can be cancelled, and taken with Drain.
func TestStop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := &log{since: time.Now()}
		r := start(t, Config[time.Duration]{Handle: l.handle})
		times := []time.Duration{3 * time.Hour, time.Second, time.Second, math.MaxInt64, 2 * time.Second}
		tasks := make([]wheel.Task[time.Duration], len(times))
		for i, after := range times {
			tasks[i].Value = after
			r.Add(&tasks[i], after)
		}
		wait(tick)
		r.Stop()
		r.Stop()
		<-r.Done()
		wait(time.Hour)
		var late wheel.Task[time.Duration]
		if l.len() != 0 || r.Len() != len(times) || r.Add(&late, 0) || late.Queued() {
			t.Errorf("a runner that was stopped handed over %d tasks, holds %d of %d", l.len(), r.Len(), len(times))
		}
		if !r.Cancel(&tasks[2]) {
			t.Error("a task that is left cannot be cancelled")
		}
		var left []time.Duration
		r.Drain(func(task *wheel.Task[time.Duration]) { left = append(left, task.Value) })
		if want := []time.Duration{time.Second, 2 * time.Second, 3 * time.Hour, math.MaxInt64}; !slices.Equal(left, want) {
			t.Errorf("Drain gave %v, want %v", left, want)
		}
		if r.Len() != 0 {
			t.Errorf("%d tasks are left after Drain", r.Len())
		}
	})
}

// Stop and Drain from within the function, and while it blocks.
func TestStopWhileItRuns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var r *Runner[time.Duration]
		drained := 0
		r = start(t, Config[time.Duration]{Handle: func(*wheel.Task[time.Duration]) {
			r.Drain(func(*wheel.Task[time.Duration]) { drained++ })
		}})
		for range 10 {
			r.Add(&wheel.Task[time.Duration]{}, time.Second)
		}
		<-r.Done()
		if drained != 9 {
			t.Errorf("%d tasks drained from the function, want 9", drained)
		}
	})
	synctest.Test(t, func(t *testing.T) {
		release, handed := make(chan struct{}), 0
		r := start(t, Config[time.Duration]{Handle: func(*wheel.Task[time.Duration]) { handed++; <-release }})
		for range 10 {
			r.Add(&wheel.Task[time.Duration]{}, 0)
		}
		synctest.Wait()
		r.Stop()
		select {
		case <-r.Done():
			t.Error("done while the function runs")
		default:
		}
		close(release)
		<-r.Done()
		if handed != 1 || r.Len() != 9 {
			t.Errorf("%d tasks were handed over, %d are left", handed, r.Len())
		}
	})
}

// TestStartStop starts and stops with tasks under way.
func TestStartStop(t *testing.T) {
	for i := range 300 {
		r, err := Start(Config[int]{Tick: time.Microsecond, Handle: func(*wheel.Task[int]) {}})
		if err != nil {
			t.Fatal(err)
		}
		for k := range i % 7 {
			r.Add(&wheel.Task[int]{}, time.Duration(k)*10*time.Microsecond)
		}
		r.Stop()
		<-r.Done()
	}
}
