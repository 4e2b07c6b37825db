package purgatory_test

import (
	"errors"
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/txmgr/txmgr/timeout/purgatory"
)

func TestSatisfiedAtOnce(t *testing.T) {
	p := open(t)
	s := &spy{try: func(int) bool { return true }}
	r, err := p.Park(s, time.Hour, "a", "b")
	if r != nil || err != nil {
		t.Errorf("Park answered %v, %v; a request that is over has no handle", r, err)
	}
	s.ended(t, purgatory.Satisfied)
	if !r.Done() {
		t.Error("a nil handle is not done")
	}
	r.Cancel()
	s.ended(t, purgatory.Satisfied)
	if p.Len() != 0 || p.Watchers() != 0 {
		t.Errorf("%d requests and %d watchers are left of one that never waited", p.Len(), p.Watchers())
	}
}

func TestCheckWakesThoseThatWatch(t *testing.T) {
	p := open(t)
	one, other, both := &spy{}, &spy{}, &spy{}
	r := park(t, p, one, time.Hour, "a")
	park(t, p, other, time.Hour, "b")
	park(t, p, both, time.Hour, "b", "a")
	if n := p.Check("a"); n != 0 {
		t.Errorf("Check completed %d requests whose condition does not hold", n)
	}
	one.ready.Store(true)
	both.ready.Store(true)
	other.ready.Store(true)
	if n := p.Check("c"); n != 0 {
		t.Errorf("Check completed %d requests that do not watch its key", n)
	}
	if n := p.Check("a"); n != 2 {
		t.Errorf("Check completed %d requests, want 2", n)
	}
	if !r.Done() || p.Len() != 1 {
		t.Errorf("done: %v, parked: %d", r.Done(), p.Len())
	}
	one.ended(t, purgatory.Satisfied)
	both.ended(t, purgatory.Satisfied)
	other.ended(t)
	if n := p.Check("b"); n != 1 {
		t.Errorf("Check completed %d requests, want the one that is left", n)
	}
	if n := p.Check("a") + p.Check("b"); n != 0 {
		t.Errorf("Check completed %d requests twice", n)
	}
	one.ended(t, purgatory.Satisfied)
	both.ended(t, purgatory.Satisfied)
	other.ended(t, purgatory.Satisfied)
}

func TestCheckAllWakesEveryKey(t *testing.T) {
	p := open(t)
	if n := p.CheckAll(); n != 0 {
		t.Errorf("CheckAll completed %d requests of none", n)
	}
	spies := make([]*spy, 1000)
	for n := range spies {
		spies[n] = &spy{}
		park(t, p, spies[n], time.Hour, fmt.Sprint("key ", n/2), fmt.Sprint("other ", n%7))
		spies[n].ready.Store(n%3 != 0)
	}
	if n := p.CheckAll(); n != 666 {
		t.Errorf("CheckAll completed %d requests, want 666", n)
	}
	for n, s := range spies {
		if n%3 == 0 {
			s.ended(t)
		} else {
			s.ended(t, purgatory.Satisfied)
		}
	}
}

// The condition becomes true after the first try and before the request is in the list of the key,
// so the check finds no watcher.
func TestChangeBetweenTryAndWatchIsSeen(t *testing.T) {
	p := open(t)
	s := &spy{}
	s.try = func(round int) bool {
		if round == 1 {
			if n := p.Check("a"); n != 0 {
				t.Errorf("Check completed %d requests before one was parked", n)
			}
			return false
		}
		return true
	}
	r, err := p.Park(s, time.Hour, "a")
	if err != nil || !r.Done() {
		t.Errorf("the change before the watch was missed: Park answered %v, done: %v", err, r.Done())
	}
	s.ended(t, purgatory.Satisfied)
}

// The key is checked while TryComplete runs and has read the old state: it must be called again.
func TestChangeDuringTryIsSeen(t *testing.T) {
	for _, during := range []int{2, 3} { // the try after the watch, the try of a check
		t.Run(fmt.Sprint("round ", during), func(t *testing.T) {
			p := open(t)
			s := &spy{}
			s.try = func(round int) bool {
				seen := s.ready.Load()
				if round == during {
					s.ready.Store(true)
					p.Check("a")
				}
				return seen
			}
			if _, err := p.Park(s, time.Hour, "a"); err != nil {
				t.Fatal(err)
			}
			if during == 3 {
				s.ended(t)
				p.Check("a")
			}
			s.ended(t, purgatory.Satisfied)
		})
	}
}

func TestBadKeys(t *testing.T) {
	many := make([]float64, purgatory.MaxKeys+1)
	for n := range many {
		many[n] = float64(n)
	}
	p := start[float64](t, purgatory.Config{})
	for _, c := range []struct {
		keys []float64
		want error
	}{
		{nil, purgatory.ErrNoKeys},
		{many, purgatory.ErrTooManyKeys},
		{[]float64{1, math.NaN()}, purgatory.ErrKey},
	} {
		s := &spy{try: func(int) bool { return true }}
		r, err := p.Park(s, time.Hour, c.keys...)
		if r != nil || !errors.Is(err, c.want) {
			t.Errorf("%d keys: Park answered %v, %v, want %v", len(c.keys), r, err, c.want)
		}
		s.ended(t)
		if s.tries.Load() != 0 {
			t.Errorf("%d keys: tried although refused", len(c.keys))
		}
	}
	s := &spy{}
	if _, err := p.Park(s, time.Hour, many[:purgatory.MaxKeys]...); err != nil {
		t.Errorf("the most keys that are allowed: %v", err)
	}
	if n := p.Watchers(); n != purgatory.MaxKeys {
		t.Errorf("%d watchers of %d keys", n, purgatory.MaxKeys)
	}
	if n := p.Check(math.NaN()); n != 0 {
		t.Errorf("Check of a NaN completed %d", n)
	}
}

func TestBadRequestAndConfig(t *testing.T) {
	p := open(t)
	if r, err := p.Park(nil, time.Hour, "a"); r != nil || !errors.Is(err, purgatory.ErrNoRequest) {
		t.Errorf("Park of nothing answered %v, %v", r, err)
	}
	if err := p.Wait(t.Context(), nil, time.Hour, "a"); !errors.Is(err, purgatory.ErrNoRequest) {
		t.Errorf("Wait for nothing answered %v", err)
	}
	if p, err := purgatory.Start[int](purgatory.Config{Tick: -1}); p != nil || !errors.Is(err, purgatory.ErrTick) {
		t.Errorf("a negative tick: %v", err)
	}
	for _, size := range []int{math.MinInt, -1, 1, 2, 3, 1 << 10} {
		p := start[int](t, purgatory.Config{WheelSize: size})
		s := &spy{}
		if _, err := p.Park(s, math.MaxInt64, 1); err != nil {
			t.Error(err)
		}
		p.Stop()
		s.ended(t, purgatory.Stopped)
	}
}

func TestKeyThatCannotBeCompared(t *testing.T) {
	p := start[any](t, purgatory.Config{})
	s := &spy{}
	func() {
		defer func() {
			if recover() == nil {
				t.Error("no panic, which is what a map does")
			}
		}()
		_, _ = p.Park(s, time.Hour, any("fine"), any([]int{1}))
	}()
	s.ended(t)
	if p.Len() != 0 || p.Watchers() != 0 || s.tries.Load() != 0 {
		t.Errorf("%d parked, %d watchers, %d tries", p.Len(), p.Watchers(), s.tries.Load())
	}
}

func TestDuplicateKeysAreWatchedOnce(t *testing.T) {
	p := open(t)
	s := &spy{}
	park(t, p, s, time.Hour, "a", "b", "a", "a", "b")
	if n := p.Watchers(); n != 2 {
		t.Errorf("%d watchers of two keys", n)
	}
	before := s.tries.Load()
	p.Check("a")
	if n := s.tries.Load() - before; n != 1 {
		t.Errorf("tried %d times by one check", n)
	}
}

func TestCancel(t *testing.T) {
	p := open(t)
	s := &spy{}
	r := park(t, p, s, time.Hour, "a")
	park(t, p, &spy{}, time.Hour, "b")
	r.Cancel()
	s.ended(t, purgatory.Cancelled)
	if !r.Done() || p.Len() != 1 {
		t.Errorf("done: %v, parked: %d", r.Done(), p.Len())
	}
	s.ready.Store(true)
	r.Cancel()
	if n := p.Check("a"); n != 0 {
		t.Errorf("Check completed %d cancelled requests", n)
	}
	s.ended(t, purgatory.Cancelled)
	if n := p.Watchers(); n != 1 {
		t.Errorf("%d watchers, want that of the other request", n)
	}
}

func TestCancelDuringTry(t *testing.T) {
	for _, satisfied := range []bool{false, true} {
		p := open(t)
		s := &spy{}
		var r *purgatory.Parked
		s.try = func(round int) bool {
			if round < 3 {
				return false
			}
			r.Cancel()
			r.Cancel()
			if r.Done() {
				t.Error("completed while TryComplete runs")
			}
			return satisfied
		}
		r = park(t, p, s, time.Hour, "a")
		p.Check("a")
		if satisfied {
			s.ended(t, purgatory.Satisfied)
		} else {
			s.ended(t, purgatory.Cancelled)
		}
	}
}

func TestCompleteMayParkAgain(t *testing.T) {
	p := open(t)
	var s *spy
	parked := 0
	s = &spy{try: func(round int) bool { return round > 2 }, done: func(how purgatory.Outcome) {
		if parked++; how == purgatory.Satisfied && parked < 1000 {
			next := &spy{try: func(round int) bool { return round > 2 }, done: s.done}
			park(t, p, next, time.Hour, "a")
		}
	}}
	park(t, p, s, time.Hour, "a")
	if n := p.Check("a"); n != 1 {
		t.Errorf("one check completed %d requests: it went on with those that came after it", n)
	}
	if p.Len() != 1 {
		t.Errorf("%d parked, want the one that came after", p.Len())
	}
}

func TestStop(t *testing.T) {
	p := open(t)
	one, two := &spy{}, &spy{}
	r := park(t, p, one, time.Hour, "a")
	two.done = func(purgatory.Outcome) {
		p.Stop()
		if _, err := p.Park(&spy{}, time.Hour, "a"); !errors.Is(err, purgatory.ErrStopped) {
			t.Errorf("Park while closing: %v", err)
		}
		r.Cancel()
	}
	park(t, p, two, time.Hour, "b")
	p.Stop()
	two.ended(t, purgatory.Stopped)
	if p.Len() != 0 || !r.Done() {
		t.Errorf("%d parked after Close; done: %v", p.Len(), r.Done())
	}
	late := &spy{try: func(int) bool { return true }}
	if r, err := p.Park(late, time.Hour, "a"); r != nil || !errors.Is(err, purgatory.ErrStopped) {
		t.Errorf("Park after Close answered %v, %v", r, err)
	}
	late.ended(t)
	one.ready.Store(true)
	if n := p.Check("a") + p.CheckAll(); n != 0 {
		t.Errorf("%d completed after Close", n)
	}
	p.Stop()
}

func TestStopDuringTry(t *testing.T) {
	p := open(t)
	s := &spy{}
	s.try = func(round int) bool {
		if round == 3 {
			p.Stop()
		}
		return false
	}
	park(t, p, s, time.Hour, "a")
	p.Check("a")
	s.ended(t, purgatory.Stopped)
}

// The purgatory is stopped after Park has checked whether it is.
func TestStopWhileParking(t *testing.T) {
	for closing := 1; closing <= 2; closing++ {
		p := open(t)
		s := &spy{}
		s.try = func(round int) bool {
			if round == closing {
				p.Stop()
			}
			return false
		}
		r, err := p.Park(s, time.Hour, "a")
		switch closing {
		case 1: // nothing was parked yet
			if r != nil || !errors.Is(err, purgatory.ErrStopped) {
				t.Errorf("Park answered %v, %v", r, err)
			}
			s.ended(t)
		case 2: // it was
			if !r.Done() || err != nil {
				t.Errorf("done: %v, %v", r.Done(), err)
			}
			s.ended(t, purgatory.Stopped)
		}
		if p.Len() != 0 {
			t.Errorf("%d parked", p.Len())
		}
	}
}
