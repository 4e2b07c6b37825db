package adaptive

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// spy keeps the windows that it sees, and makes the decisions that it was given.
type spy struct {
	limit   int
	decide  func(n int, w *Window) Decision
	mu      sync.Mutex // guards seen
	seen    []Window
	service []*Histogram
}

func newSpy(limit int) *spy { return &spy{limit: limit} }

func (s *spy) Period() time.Duration { return time.Second }

func (s *spy) Observe(w *Window) Decision {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.seen = append(s.seen, *w)
	service := new(Histogram)
	service.Add(w.Service)
	s.service = append(s.service, service)
	if s.decide != nil {
		return s.decide(len(s.seen), w)
	}
	return Decision{Limit: s.limit}
}

func (s *spy) windows() []Window {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.seen
}

// TestWindow checks every figure of a window against sums done by hand: ten tasks of
// 300 ms under a limit of 2, and one second.
func TestWindow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := newSpy(2)
		p := open(t, Config{Optimizer: o, Start: 2})
		for range 10 {
			submit(t, p, lasting(300*time.Millisecond))
		}
		<-time.After(3500 * time.Millisecond)
		synctest.Wait()
		got := o.windows()
		if len(got) != 3 {
			t.Fatalf("%d windows in 3.5 s", len(got))
		}
		ms := time.Millisecond
		w := got[0]
		if w.Start != 0 || w.End != time.Second || w.Limit != 2 || w.CPU == w.CPU {
			t.Errorf("%+v", w)
		}
		if w.Arrived != 10 || w.Completed != 6 || w.BusyTime != 2000*ms || w.BusyMax != 2 {
			t.Errorf("busy: %+v", w)
		}
		// Eight wait for 300 ms, six for 300, four for 300, two for 100.
		if w.QueueTime != (8*300+6*300+4*300+2*100)*ms || w.QueueMax != 8 || w.QueueLen != 2 {
			t.Errorf("queue: %+v", w)
		}
		if w.BoundTime != time.Second || w.BoundCompleted != 6 {
			t.Errorf("bound: %+v", w)
		}
		w = got[1]
		// Two tasks until 1.2 s, two until 1.5 s, of which none waits after 1.2 s.
		if w.Completed != 4 || w.BusyTime != 1000*ms || w.BoundTime != 200*ms || w.BoundCompleted != 2 || w.QueueLen != 0 {
			t.Errorf("second: %+v", w)
		}
		if h := o.service[0]; h.Count() != 6 || h.Mean() != 300*ms {
			t.Errorf("%d times of service, mean %v", h.Count(), h.Mean())
		}
		if w := got[2]; w.Completed != 0 || w.BusyTime != 0 || w.BusyMax != 0 || o.service[2].Count() != 0 {
			t.Errorf("third: %+v", w)
		}
		s := p.Stats()
		if want := (300 + 600 + 900 + 1200 + 1500) * ms / 5; s.Mean != want || s.P99 < 1490*ms || s.P99 > 1510*ms {
			t.Errorf("mean %v, not %v; p99 %v", s.Mean, want, s.P99)
		}
		if s.Throughput < 3.33 || s.Throughput > 3.34 {
			t.Errorf("%v in a second", s.Throughput)
		}
	})
}

// Invariant 6: what timed out is no evidence, everything else is recorded once.
func TestTimedOutTasksAreNoEvidence(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := newSpy(4)
		p := open(t, Config{Optimizer: o, Start: 4})
		submit(t, p, lasting(100*time.Millisecond))
		submit(t, p, func() error { <-time.After(900 * time.Millisecond); return errors.New("refused") })
		submit(t, p, func() error {
			<-time.After(700 * time.Millisecond)
			return fmt.Errorf("call: %w", context.DeadlineExceeded)
		})
		<-time.After(1100 * time.Millisecond)
		synctest.Wait()
		if w := o.windows()[0]; w.Completed != 2 || o.service[0].Count() != 2 || o.service[0].Mean() != 500*time.Millisecond {
			t.Errorf("%+v, mean %v", w, o.service[0].Mean())
		}
	})
}

func TestDecisionsAreMade(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := newSpy(0)
		o.decide = func(n int, w *Window) Decision {
			switch n {
			case 1:
				return Decision{4, "four is better"}
			case 2:
				return Decision{4, ""}
			case 3:
				return Decision{-7, "nonsense"}
			case 4:
				return Decision{MaxLimit * 2, "more nonsense"}
			case 5:
				panic("out of order")
			}
			return Decision{w.Limit, ""}
		}
		failures := 0
		p := open(t, Config{Optimizer: o, Start: 2, OnError: func(err error) {
			if errors.As(err, new(*PanicError)) {
				failures++
			}
		}})
		start := time.Now()
		g := newGate()
		for range 6 {
			submit(t, p, g.wait)
		}
		for i, want := range []int32{2, 4, 4, 4, 6} { // running tasks are left alone
			synctest.Wait()
			if n := g.at.Load(); n != want {
				t.Errorf("after %d windows %d run, not %d", i, n, want)
			}
			<-time.After(time.Second)
		}
		<-time.After(time.Second)
		synctest.Wait()
		close(g.open)
		var got []DecisionRecord
		for _, d := range p.Decisions() {
			d.Why, _, _ = strings.Cut(d.Why, "\n")
			got = append(got, d)
		}
		if len(got) != 4 || failures != 1 {
			t.Fatalf("%d failures, decisions: %+v", failures, got)
		}
		if d := got[0]; d.From != 2 || d.To != 4 || d.Why != "four is better" || d.At.Sub(start) != time.Second || d.Busy != 2 || d.Bound != 1 || d.QueueLen != 4 {
			t.Errorf("first: %+v", d)
		}
		if a, b := got[1], got[2]; a.To != 1 || b.From != 1 || b.To != MaxLimit {
			t.Errorf("nonsense: %+v, %+v", a, b)
		}
		if d := got[3]; d.To != MaxLimit || d.Why != "the optimizer failed: adaptive: the task panicked: out of order" {
			t.Errorf("panic: %+v", d)
		}
		if s := p.Stats(); s.Last != p.Decisions()[3] {
			t.Errorf("last: %+v", s.Last)
		}
	})
}

// Invariant 9.
func TestWindowsHaveOneLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var p *Pool
		o := newSpy(0)
		o.decide = func(n int, w *Window) Decision {
			if n == 2 { // the limit is changed manually first
				if err := p.Resize(9); err != nil {
					t.Error(err)
				}
				return Decision{3, "too late"}
			}
			return Decision{w.Limit, ""}
		}
		p = open(t, Config{Optimizer: o, Start: 2})
		<-time.After(1500 * time.Millisecond)
		if err := p.Resize(5); err != nil {
			t.Fatal(err)
		}
		<-time.After(5 * time.Second)
		synctest.Wait()
		type seen struct {
			start time.Duration
			limit int
		}
		var got []seen
		for _, w := range o.windows() {
			got = append(got, seen{w.Start, w.Limit})
		}
		want := []seen{{0, 2}, {2 * time.Second, 5}, {4 * time.Second, 9}, {5 * time.Second, 9}}
		if len(got) != len(want) {
			t.Fatalf("windows: %+v", got)
		}
		for i := range want {
			if got[i] != want[i] {
				t.Errorf("window %d: %+v, not %+v", i, got[i], want[i])
			}
		}
		if d := p.Decisions(); len(d) != 2 || d[0].Why != "set manually" || d[1].To != 9 {
			t.Errorf("decisions: %+v", d)
		}
	})
}

func TestFixed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := open(t, Config{Optimizer: Fixed(3)})
		if err := p.Resize(7); err != nil {
			t.Fatal(err)
		}
		<-time.After(3 * time.Second)
		synctest.Wait()
		if s := p.Stats(); s.Limit != 3 || s.Last.Why != "the limit is fixed" {
			t.Errorf("%+v", s)
		}
		free := open(t, Config{Optimizer: Fixed(0), Start: 3})
		if err := free.Resize(7); err != nil {
			t.Fatal(err)
		}
		<-time.After(3 * time.Second)
		synctest.Wait()
		if s := free.Stats(); s.Limit != 7 {
			t.Errorf("%+v", s)
		}
	})
}

func TestCPUIsAskedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := newSpy(1)
		open(t, Config{Optimizer: o, CPU: func() float64 { return 0.25 }})
		<-time.After(time.Second)
		synctest.Wait()
		if w := o.windows()[0]; w.CPU != 0.25 {
			t.Errorf("%v", w.CPU)
		}
	})
}

// Clock readings arrive out of order, since they are taken before the lock.
func TestClockReadingsOutOfOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := open(t, Config{Optimizer: Fixed(0), Start: 2})
		g := newGate()
		submit(t, p, g.wait)
		<-time.After(time.Second)
		p.mu.Lock()
		p.advanceLocked(500 * time.Millisecond)
		p.advanceLocked(-time.Hour)
		p.advanceLocked(p.now())
		p.advanceLocked(0)
		if m := p.counters; m.last != time.Second || m.busy != time.Second {
			t.Errorf("busy for %v until %v", m.busy, m.last)
		}
		p.mu.Unlock()
		close(g.open)
	})
}

func TestRing(t *testing.T) {
	var r decisionRing
	if d := r.last(); d != (DecisionRecord{}) || len(r.all()) != 0 {
		t.Errorf("empty: %+v", d)
	}
	for n := 1; n <= 3*ringSize/2; n++ {
		r.add(DecisionRecord{To: n})
		all := r.all()
		first := max(1, n-ringSize+1)
		if r.last().To != n || len(all) != n-first+1 || all[0].To != first || all[len(all)-1].To != n {
			t.Fatalf("after %d: last %d, %d from %d to %d", n, r.last().To, len(all), all[0].To, all[len(all)-1].To)
		}
	}
}

// TestKneeInAPool: users that wait for answers, at a service that serves twenty requests at once, in
// a pool that begins with two workers.
func TestKneeInAPool(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := open(t, Config{Start: 2})
		room := make(chan struct{}, 20)
		end := time.Now().Add(40 * time.Second)
		var users sync.WaitGroup
		for range 100 {
			users.Go(func() {
				for time.Now().Before(end) {
					err := p.Do(t.Context(), func() error {
						room <- struct{}{}
						defer func() { <-room }()
						return lasting(20 * time.Millisecond)()
					})
					if err != nil {
						t.Error(err)
					}
				}
			})
		}
		users.Wait()
		for _, d := range p.Decisions() {
			t.Logf("%3d -> %3d: %s", d.From, d.To, d.Why)
		}
		if s := p.Stats(); s.Limit < 18 || s.Limit > 26 || s.Throughput < 900 {
			t.Errorf("limit %d for 20, %.0f in a second", s.Limit, s.Throughput)
		}
	})
}
