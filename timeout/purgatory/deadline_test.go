package purgatory_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"runtime"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/txmgr/txmgr/timeout/purgatory"
)

// A request expires when its timeout has passed, never before, and at most a tick later, wherever in a tick it came.
func TestExpires(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := open(t)
		timeouts := []time.Duration{1, tick - 1, tick, tick + 1, time.Second, 77*time.Second + 1, time.Hour, 1000 * time.Hour}
		for _, timeout := range timeouts {
			for _, into := range []time.Duration{0, 1, tick / 2, tick - 1} {
				<-time.After(into)
				began := time.Now()
				var took time.Duration
				s := &spy{done: func(purgatory.Outcome) { took = time.Since(began) }}
				park(t, p, s, timeout, "a")
				<-time.After(timeout - 1)
				synctest.Wait()
				s.ended(t)
				<-time.After(tick + 1)
				synctest.Wait()
				s.ended(t, purgatory.Expired)
				if took < timeout || took > timeout+tick {
					t.Errorf("a timeout of %v has ended after %v", timeout, took)
				}
				if p.Len() != 0 {
					t.Errorf("%d parked after the deadline", p.Len())
				}
			}
		}
	})
}

func TestTimeoutThatIsNotPositiveAsksOnce(t *testing.T) {
	p := open(t)
	for _, timeout := range []time.Duration{0, -1, math.MinInt64} {
		s := &spy{}
		if r, err := p.Park(s, timeout, "a"); r != nil || err != nil {
			t.Errorf("timeout %v: Park answered %v, %v", timeout, r, err)
		}
		s.ended(t, purgatory.Expired)
		if n := s.tries.Load(); n != 1 {
			t.Errorf("timeout %v: tried %d times", timeout, n)
		}
		s = &spy{try: func(int) bool { return true }}
		if _, err := p.Park(s, timeout, "a"); err != nil {
			t.Error(err)
		}
		s.ended(t, purgatory.Satisfied)
	}
	if p.Len() != 0 || p.Watchers() != 0 {
		t.Errorf("%d parked, %d watchers", p.Len(), p.Watchers())
	}
}

func TestTimeoutBeyondTheClock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, size := range []time.Duration{1, tick, math.MaxInt64} {
			p := start[string](t, purgatory.Config{Tick: size})
			<-time.After(time.Hour)
			far, near := &spy{}, &spy{}
			r := park(t, p, far, math.MaxInt64, "a")
			park(t, p, near, math.MaxInt64-1, "a")
			<-time.After(10000 * time.Hour)
			synctest.Wait()
			far.ended(t)
			near.ended(t)
			far.ready.Store(true)
			p.Check("a")
			far.ended(t, purgatory.Satisfied)
			if !r.Done() {
				t.Error("the handle is not done")
			}
			p.Stop()
			near.ended(t, purgatory.Stopped)
		}
	})
}

// The deadline comes while TryComplete runs, on another goroutine than that of the clock.
func TestDeadlineDuringTry(t *testing.T) {
	for _, satisfied := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			p := open(t)
			s := &spy{}
			s.try = func(round int) bool {
				if round < 3 {
					return false
				}
				<-time.After(time.Minute)
				if outcomes, _ := s.seen(); len(outcomes) > 0 {
					t.Error("completed while TryComplete runs")
				}
				return satisfied
			}
			park(t, p, s, time.Second, "a")
			p.Check("a")
			if satisfied {
				s.ended(t, purgatory.Satisfied)
			} else {
				s.ended(t, purgatory.Expired)
			}
		})
	}
}

// A TryComplete that always checks its own key is postponed instead of running for ever.
func TestTryThatChecksItselfIsPutOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := open(t)
		s := &spy{}
		s.try = func(int) bool {
			p.Check("a")
			return false
		}
		park(t, p, s, time.Second, "a")
		if n := s.tries.Load(); n < 2 || n > 50 {
			t.Errorf("tried %d times by Park", n)
		}
		<-time.After(time.Second / 2)
		if n := s.tries.Load(); n < 51 || n > 51*50 {
			t.Errorf("tried %d times in half a second of 50 ticks", n)
		}
		<-time.After(time.Second)
		s.ended(t, purgatory.Expired)
		tries := s.tries.Load()
		<-time.After(time.Minute)
		if n := s.tries.Load(); n != tries {
			t.Errorf("tried %d times after it was over", n-tries)
		}
	})
}

// A postponed try is not lost: the check that came during the last of many rounds is answered a
// tick later.
func TestChangeDuringTheLastRoundIsSeen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := open(t)
		s := &spy{}
		s.try = func(int) bool {
			seen := s.ready.Load()
			if !seen && s.tries.Load() > 2 {
				p.Check("a")
				s.ready.Store(s.tries.Load() == 2+16)
			}
			return seen
		}
		park(t, p, s, time.Hour, "a")
		p.Check("a")
		s.ended(t)
		<-time.After(2 * tick)
		synctest.Wait()
		s.ended(t, purgatory.Satisfied)
	})
}

func TestPanics(t *testing.T) {
	for _, what := range []string{"TryComplete", "Complete"} {
		t.Run(what, func(t *testing.T) {
			p := open(t)
			spies := make([]*spy, 200) // several batches
			for n := range spies {
				s := &spy{}
				if n == 150 || n == 20 {
					if what == "Complete" {
						s.done = func(purgatory.Outcome) { panic(n) }
					} else {
						s.try = func(round int) bool {
							if round == 3 {
								panic(n)
							}
							return round > 3
						}
					}
				}
				spies[n] = s
				park(t, p, s, time.Hour, "a")
				s.ready.Store(true)
			}
			func() {
				defer func() {
					if v := recover(); v != 150 && v != 20 {
						t.Errorf("recovered %v, want the panic of a request", v)
					}
				}()
				p.Check("a")
				t.Error("Check returned")
			}()
			for _, s := range spies {
				if s.try != nil {
					s.ended(t)
				} else {
					s.ended(t, purgatory.Satisfied)
				}
			}
			p.Check("a")
			for _, s := range spies {
				s.ended(t, purgatory.Satisfied)
			}
			if p.Len() != 0 {
				t.Errorf("%d parked", p.Len())
			}
		})
	}
}

func TestPanicWhileParking(t *testing.T) {
	for round := 1; round <= 2; round++ {
		synctest.Test(t, func(t *testing.T) {
			p := open(t)
			s := &spy{}
			s.try = func(n int) bool {
				if n == round {
					p.Check("a")
					panic("no")
				}
				return n > round
			}
			func() {
				defer func() {
					if v := recover(); v != "no" {
						t.Errorf("round %d: recovered %v", round, v)
					}
				}()
				_, _ = p.Park(s, time.Second, "a")
			}()
			if p.Len() != 0 {
				t.Errorf("round %d: %d parked", round, p.Len())
			}
			<-time.After(time.Minute)
			p.Check("a")
			s.ended(t)
		})
	}
}

func TestGoexitInTry(t *testing.T) {
	p := open(t)
	spies := make([]*spy, 3)
	for n := range spies {
		spies[n] = &spy{}
		park(t, p, spies[n], time.Hour, "a")
		spies[n].ready.Store(true)
	}
	spies[1].try = func(int) bool {
		runtime.Goexit()
		return true
	}
	gone := make(chan struct{})
	go func() {
		defer close(gone)
		p.Check("a")
		t.Error("Check returned")
	}()
	<-gone
	spies[0].ended(t, purgatory.Satisfied)
	spies[1].ended(t)
	spies[2].ended(t, purgatory.Satisfied)
	spies[1].try = nil
	p.Check("a")
	spies[1].ended(t, purgatory.Satisfied)
}

func TestWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := open(t)
		why := errors.New("why not")
		for _, c := range []struct {
			name string
			do   func(ready *atomic.Bool, cancel context.CancelCauseFunc)
			want error
			took time.Duration
		}{
			{"satisfied", func(ready *atomic.Bool, _ context.CancelCauseFunc) { ready.Store(true); p.Check("a") }, nil, time.Second},
			{"expired", func(*atomic.Bool, context.CancelCauseFunc) { p.Check("a") }, purgatory.ErrExpired, time.Minute},
			{"given up", func(_ *atomic.Bool, cancel context.CancelCauseFunc) { cancel(why) }, why, time.Second},
			{"satisfied and given up", func(ready *atomic.Bool, cancel context.CancelCauseFunc) {
				ready.Store(true)
				p.Check("a")
				cancel(why)
			}, nil, time.Second},
			{"stopped", func(*atomic.Bool, context.CancelCauseFunc) { p.Stop() }, purgatory.ErrStopped, time.Second},
			{"stopped already", func(*atomic.Bool, context.CancelCauseFunc) {}, purgatory.ErrStopped, 0},
		} {
			ctx, cancel := context.WithCancelCause(t.Context())
			var ready atomic.Bool
			began := time.Now()
			go func() {
				<-time.After(time.Second)
				c.do(&ready, cancel)
			}()
			err := p.Wait(ctx, ready.Load, time.Minute, "a")
			if !errors.Is(err, c.want) || c.want == nil && err != nil {
				t.Errorf("%s: Wait answered %v, want %v", c.name, err, c.want)
			}
			if took := time.Since(began); took < c.took || took > c.took+tick {
				t.Errorf("%s: took %v, want %v", c.name, took, c.took)
			}
			<-time.After(time.Minute)
			if p.Len() != 0 {
				t.Errorf("%s: %d parked", c.name, p.Len())
			}
			cancel(nil)
		}
		if err := p.Wait(t.Context(), func() bool { return true }, time.Minute); !errors.Is(err, purgatory.ErrNoKeys) {
			t.Errorf("no keys: %v", err)
		}
	})
}

func TestManyDeadlinesInOneTick(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := open(t)
		const many = 10_000
		spies := make([]spy, many)
		for n := range spies {
			if _, err := p.Park(&spies[n], time.Second, fmt.Sprint(n%100)); err != nil {
				t.Fatal(err)
			}
		}
		<-time.After(time.Second + tick)
		synctest.Wait()
		for n := range spies {
			spies[n].ended(t, purgatory.Expired)
		}
		if p.Len() != 0 {
			t.Errorf("%d parked", p.Len())
		}
	})
}
