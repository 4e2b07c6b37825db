package adaptive

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// open makes a pool that ends with the test.
func open(t testing.TB, cfg Config) *Pool {
	t.Helper()
	p, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := p.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return p
}

// lasting is a task of the given duration.
func lasting(d time.Duration) Task {
	return func() error {
		<-time.After(d)
		return nil
	}
}

// gate blocks tasks until it is opened; it counts how many wait.
type gate struct {
	at   atomic.Int32
	open chan struct{}
}

func newGate() *gate { return &gate{open: make(chan struct{})} }

func (g *gate) wait() error {
	g.at.Add(1)
	defer g.at.Add(-1)
	<-g.open
	return nil
}

func submit(t testing.TB, p *Pool, task Task) {
	t.Helper()
	if err := p.TrySubmit(task); err != nil {
		t.Fatal(err)
	}
}

// Invariants 1 and 2: after the limit has been lowered nothing starts until fewer tasks
// run than it allows, and no running task is touched.
func TestShrinking(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := open(t, Config{Optimizer: Fixed(0), Start: 10})
		gates := make([]*gate, 20)
		for i := range gates {
			gates[i] = newGate()
			submit(t, p, gates[i].wait)
		}
		running := func() (n int) {
			synctest.Wait()
			for _, g := range gates {
				n += int(g.at.Load())
			}
			if s := p.Stats(); s.Running != n {
				t.Errorf("%d tasks run, stats say %d", n, s.Running)
			}
			return n
		}
		if n := running(); n != 10 {
			t.Fatalf("%d run under a limit of 10", n)
		}
		if err := p.Resize(3); err != nil {
			t.Fatal(err)
		}
		for i, g := range gates {
			if n, want := running(), min(max(10-i, 3), 20-i); n != want {
				t.Errorf("after %d have ended %d run, not %d", i, n, want)
			}
			close(g.open)
		}
		if n := running(); n != 0 {
			t.Errorf("%d still run", n)
		}
	})
}

// Growing wakes what waits: in the queue, and for a place in it.
func TestGrowing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := open(t, Config{Optimizer: Fixed(0), Start: 1, Queue: 2})
		g := newGate()
		for range 3 {
			submit(t, p, g.wait)
		}
		var waiting sync.WaitGroup
		for range 4 {
			waiting.Go(func() {
				if err := p.Submit(t.Context(), g.wait); err != nil {
					t.Error(err)
				}
			})
		}
		synctest.Wait()
		if s := p.Stats(); s.Running != 1 || s.Waiting != 6 || s.Arrived != 3 {
			t.Errorf("before: %+v", s)
		}
		if err := p.Resize(6); err != nil {
			t.Fatal(err)
		}
		waiting.Wait()
		synctest.Wait()
		if n := g.at.Load(); n != 6 {
			t.Errorf("%d run under a limit of 6", n)
		}
		if s := p.Stats(); s.Running != 6 || s.Waiting != 1 || s.Arrived != 7 {
			t.Errorf("after: %+v", s)
		}
		close(g.open)
	})
}

// Row 20: the queue has an end, and the counts are exact.
func TestTheQueueHasAnEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := open(t, Config{Optimizer: Fixed(2), Queue: 3})
		g := newGate()
		for range 5 {
			submit(t, p, g.wait)
		}
		if err := p.TrySubmit(g.wait); err != ErrFull {
			t.Errorf("the sixth: %v", err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := p.Submit(ctx, g.wait); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("the sixth, waiting for a second: %v", err)
		}
		close(g.open)
		synctest.Wait()
		if s := p.Stats(); s.Arrived != 5 || s.Completed != 5 || s.Running != 0 || s.Waiting != 0 {
			t.Errorf("%+v", s)
		}
	})
}

// Invariant 4.
func TestOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := open(t, Config{Optimizer: Fixed(1), Queue: 4})
		g := newGate()
		submit(t, p, g.wait)
		var got []int // by the one worker
		var submitters sync.WaitGroup
		for i := range 12 { // four in the queue, the others wait for a place, one behind the other
			submitters.Go(func() {
				if err := p.Submit(t.Context(), func() error { got = append(got, i); return nil }); err != nil {
					t.Error(err)
				}
			})
			synctest.Wait()
		}
		close(g.open)
		submitters.Wait()
		synctest.Wait()
		if want := []int{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11}; !slices.Equal(got, want) {
			t.Errorf("ran in the order %v", got)
		}
	})
}

func TestDo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := open(t, Config{Optimizer: Fixed(1)})
		want := errors.New("as expected")
		if err := p.Do(t.Context(), func() error { return want }); err != want {
			t.Errorf("the task's error is %v", err)
		}
		g := newGate()
		submit(t, p, g.wait)

		// Withdrawn while it waits.
		ctx, cancel := context.WithTimeoutCause(t.Context(), time.Second, want)
		defer cancel()
		if err := p.Do(ctx, func() error { t.Error("was run"); return nil }); err != want {
			t.Errorf("withdrawn: %v", err)
		}
		if s := p.Stats(); s.Waiting != 0 {
			t.Errorf("still waits: %+v", s)
		}

		// Not while it runs: when Do returns, it has ended.
		close(g.open)
		ctx, cancel = context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		start := time.Now()
		if err := p.Do(ctx, lasting(time.Minute)); err != nil || time.Since(start) != time.Minute {
			t.Errorf("after %v: %v", time.Since(start), err)
		}
	})
}

// The place of a withdrawn task goes to a submitter that waits for one.
func TestWithdrawnPlace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := open(t, Config{Optimizer: Fixed(1), Queue: 1})
		g := newGate()
		submit(t, p, g.wait)
		ctx, cancel := context.WithCancel(t.Context())
		var all sync.WaitGroup
		all.Go(func() {
			if err := p.Do(ctx, g.wait); err != context.Canceled {
				t.Error(err)
			}
		})
		synctest.Wait()
		accepted := false
		all.Go(func() {
			if err := p.Submit(t.Context(), g.wait); err != nil {
				t.Error(err)
			}
			accepted = true
		})
		synctest.Wait()
		cancel()
		all.Wait()
		if s := p.Stats(); !accepted || s.Waiting != 1 {
			t.Errorf("%+v", s)
		}
		close(g.open)
	})
}

// Invariant 3: Close runs the accepted tasks, refuses others, and waits.
func TestClose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, err := New(Config{Optimizer: Fixed(2), Queue: 3})
		if err != nil {
			t.Fatal(err)
		}
		var ran atomic.Int32
		g := newGate()
		task := func() error { ran.Add(1); return g.wait() }
		for range 5 {
			submit(t, p, task)
		}
		var blocked, closing sync.WaitGroup
		blocked.Go(func() {
			if err := p.Submit(t.Context(), task); err != ErrClosed {
				t.Errorf("who waited for a place: %v", err)
			}
		})
		synctest.Wait()
		for range 3 {
			closing.Go(func() {
				if err := p.Close(context.Background()); err != nil {
					t.Error(err)
				}
				if n := ran.Load(); n != 5 {
					t.Errorf("closed after %d of 5", n)
				}
			})
		}
		synctest.Wait()
		blocked.Wait()
		if err := p.TrySubmit(task); err != ErrClosed {
			t.Errorf("TrySubmit: %v", err)
		}
		if err := p.Submit(t.Context(), task); err != ErrClosed {
			t.Errorf("Submit: %v", err)
		}
		if err := p.Do(t.Context(), task); err != ErrClosed {
			t.Errorf("Do: %v", err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		err = p.Close(ctx)
		if !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "2 tasks running and 3 waiting") {
			t.Errorf("while tasks run: %v", err)
		}
		close(g.open)
		closing.Wait()
		p.SetReady(1, 1) // has no effect
		if err := p.Resize(100); err != nil {
			t.Error(err)
		}
		if s := p.Stats(); s.Running != 0 || s.Waiting != 0 || s.Completed != 5 {
			t.Errorf("%+v", s)
		}
	})
}

// Invariant 5.
func TestTasksThatFail(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		var told []string
		p := open(t, Config{Optimizer: Fixed(1), OnError: func(err error) {
			mu.Lock()
			defer mu.Unlock()
			text, _, _ := strings.Cut(err.Error(), "\n")
			told = append(told, text)
		}})
		oops := errors.New("oops")
		submit(t, p, func() error { return oops })
		submit(t, p, func() error { panic("boom") })
		submit(t, p, func() error { panic(oops) })
		submit(t, p, func() error { var none []int; none[len(told)+7]++; return nil })
		submit(t, p, func() error { runtime.Goexit(); return nil })
		submit(t, p, func() error { return fmt.Errorf("call: %w", context.DeadlineExceeded) })
		submit(t, p, func() error { return nil })
		synctest.Wait()
		want := []string{
			"oops", "adaptive: the task panicked: boom", "adaptive: the task panicked: oops",
			"adaptive: the task panicked: runtime error: index out of range [10] with length 0", ErrExited.Error(), "call: context deadline exceeded",
		}
		if !slices.Equal(told, want) {
			t.Errorf("told: %q", told)
		}
		if s := p.Stats(); s.Running != 0 || s.Completed != 6 || s.Failed != 2 || s.Panicked != 3 || s.TimedOut != 1 {
			t.Errorf("%+v", s)
		}

		var caught *PanicError
		err := p.Do(t.Context(), func() error { panic(oops) })
		if !errors.As(err, &caught) || !errors.Is(err, oops) || !strings.Contains(string(caught.Stack), "TestTasksThatFail") {
			t.Errorf("Do of a panic: %v", err)
		}
		if err := p.Do(t.Context(), func() error { runtime.Goexit(); return nil }); err != ErrExited {
			t.Errorf("Do of an exit: %v", err)
		}
		if len(told) != len(want) {
			t.Errorf("told what Do had given: %q", told[len(want):])
		}
		if err := p.Do(t.Context(), lasting(time.Second)); err != nil {
			t.Errorf("afterwards: %v", err)
		}
	})
}

// A task that never ends keeps its own worker, and no other.
func TestTasksThatBlock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, err := New(Config{Optimizer: Fixed(3)})
		if err != nil {
			t.Fatal(err)
		}
		g := newGate()
		submit(t, p, g.wait)
		submit(t, p, g.wait)
		for range 10 {
			if err := p.Do(t.Context(), lasting(time.Second)); err != nil {
				t.Error(err)
			}
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		if err := p.Close(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("close: %v", err)
		}
		close(g.open)
		if err := p.Close(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

// Tasks that submit tasks: those that need not wait proceed, those that wait for each
// other do so until their contexts end or the limit grows.
func TestTasksThatSubmit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := open(t, Config{Optimizer: Fixed(0), Start: 1, Queue: 1})
		nothing := func() error { return nil }
		err := p.Do(t.Context(), func() error {
			if err := p.TrySubmit(nothing); err != nil {
				t.Error(err)
			}
			if err := p.TrySubmit(nothing); err != ErrFull {
				t.Errorf("a full queue: %v", err)
			}
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			if err := p.Submit(ctx, nothing); !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("waiting for a place: %v", err)
			}
			return nil
		})
		if err != nil {
			t.Error(err)
		}
		inner := func(ctx context.Context) error {
			return p.Do(t.Context(), func() error { return p.Do(ctx, nothing) })
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if err := inner(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("waiting for a worker: %v", err)
		}
		time.AfterFunc(time.Minute, func() {
			if err := p.Resize(2); err != nil {
				t.Error(err)
			}
		})
		if err := inner(t.Context()); err != nil {
			t.Errorf("waiting for a larger limit: %v", err)
		}
	})
}

func TestRefusedTasks(t *testing.T) {
	p := open(t, Config{})
	done, cancel := context.WithCancel(t.Context())
	cancel()
	for name, err := range map[string]error{
		"TrySubmit nil": p.TrySubmit(nil), "Submit nil": p.Submit(t.Context(), nil), "Do nil": p.Do(t.Context(), nil),
	} {
		if err != ErrTask {
			t.Errorf("%s: %v", name, err)
		}
	}
	run := func() error { t.Error("was run"); return nil }
	if err := p.Submit(done, run); err != context.Canceled {
		t.Errorf("Submit with a context that has ended: %v", err)
	}
	if err := p.Do(done, run); err != context.Canceled {
		t.Errorf("Do with a context that has ended: %v", err)
	}
}

type never struct{ Fixed }

func (never) Period() time.Duration { return 0 }

func TestPoolRefusesNonsense(t *testing.T) {
	for name, cfg := range map[string]Config{
		"start": {Start: -1}, "huge start": {Start: MaxLimit + 1}, "queue": {Queue: -1}, "huge queue": {Queue: MaxQueue + 1},
		"fixed": {Optimizer: Fixed(-1)}, "huge fixed": {Optimizer: Fixed(MaxLimit + 1)}, "period": {Optimizer: never{}},
	} {
		if p, err := New(cfg); p != nil || !errors.Is(err, ErrConfig) {
			t.Errorf("%s: %v, %v", name, p, err)
		}
	}
	p := open(t, Config{})
	if s := p.Stats(); s.Limit != runtime.GOMAXPROCS(0) {
		t.Errorf("starts with %d", s.Limit)
	}
	for _, limit := range []int{0, -1, MaxLimit + 1} {
		if err := p.Resize(limit); !errors.Is(err, ErrConfig) {
			t.Errorf("resize to %d: %v", limit, err)
		}
	}
}

// TestStorm makes everything happen at once, for the race detector; and counts.
func TestStorm(t *testing.T) {
	p, err := New(Config{Optimizer: Fixed(0), Start: 4, Queue: 8})
	if err != nil {
		t.Fatal(err)
	}
	var running, most, ran, accepted, withdrawn atomic.Int64
	task := func() error {
		n := running.Add(1)
		for m := most.Load(); n > m && !most.CompareAndSwap(m, n); m = most.Load() {
		}
		runtime.Gosched()
		running.Add(-1)
		if ran.Add(1)%97 == 0 {
			panic("now and then")
		}
		return nil
	}
	var all sync.WaitGroup
	for i := range 8 {
		all.Go(func() {
			for n := range 500 {
				ctx, cancel := context.WithTimeout(t.Context(), time.Duration(n%7)*100*time.Microsecond)
				var err error
				switch (i + n) % 3 {
				case 0:
					err = p.TrySubmit(task)
				case 1:
					err = p.Submit(ctx, task)
				default:
					err = p.Do(ctx, task)
				}
				cancel()
				switch {
				case err == nil || errors.As(err, new(*PanicError)):
					accepted.Add(1)
				case errors.Is(err, context.DeadlineExceeded):
					withdrawn.Add(1)
				case err != ErrFull:
					t.Error(err)
				}
			}
		})
	}
	all.Go(func() {
		for n := range 300 {
			if err := p.Resize(1 + n*7%16); err != nil {
				t.Error(err)
			}
			p.Stats()
			runtime.Gosched()
		}
	})
	all.Wait()
	if err := p.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	s := p.Stats()
	if ran.Load() != accepted.Load() || s.Completed != uint64(accepted.Load()) || s.Running != 0 || s.Waiting != 0 {
		t.Errorf("%d accepted, %d ran, %d withdrawn, %+v", accepted.Load(), ran.Load(), withdrawn.Load(), s)
	}
	if most.Load() > 16 {
		t.Errorf("%d ran at once", most.Load())
	}
}
