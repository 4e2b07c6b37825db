package purgatory_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/txmgr/txmgr/timeout/purgatory"
)

// counters are the numbers that the requests of a history wait for; they grow.
type counters [8]atomic.Int64

// client waits until one of its numbers has reached a level, and records the facts to verify its
// outcome.
type client struct {
	counters *counters
	keys     []int
	levels   []int64
	timeout  time.Duration
	began    time.Time
	clock    *atomic.Int64 // of the history: counts events

	inside    atomic.Int32
	satisfied bool // by the last TryComplete; without a lock, for the race detector

	refused   bool
	cancelled atomic.Int64 // when it was asked for, 0 for never
	ends      atomic.Int32
	ended     atomic.Int64
	outcome   purgatory.Outcome
	took      time.Duration
	fault     atomic.Pointer[string]
}

func (c *client) fail(format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	c.fault.CompareAndSwap(nil, &text)
}

func (c *client) holds() bool {
	for n, key := range c.keys {
		if c.counters[key].Load() >= c.levels[n] {
			return true
		}
	}
	return false
}

func (c *client) TryComplete() bool {
	if c.inside.Add(1) != 1 {
		c.fail("TryComplete is called while another call runs")
	}
	defer c.inside.Add(-1)
	if c.ends.Load() != 0 {
		c.fail("TryComplete is called after Complete")
	}
	if c.satisfied {
		c.fail("TryComplete is called after it has reported true")
	}
	c.satisfied = c.holds()
	return c.satisfied
}

func (c *client) Complete(how purgatory.Outcome) {
	c.took = time.Since(c.began)
	if c.inside.Add(1) != 1 {
		c.fail("Complete is called while another call runs")
	}
	defer c.inside.Add(-1)
	if c.ends.Add(1) != 1 {
		c.fail("completed twice: %v, then %v", c.outcome, how)
	}
	c.outcome = how
	if c.satisfied != (how == purgatory.Satisfied) {
		c.fail("completed with %v when TryComplete has reported %v", how, c.satisfied)
	}
	c.ended.Store(c.clock.Add(1))
}

// verify returns what is wrong with the outcome of c; closed is when the purgatory was stopped.
func (c *client) verify(closed int64) error {
	if f := c.fault.Load(); f != nil {
		return errors.New(*f)
	}
	ends, cancelled := c.ends.Load(), c.cancelled.Load()
	switch {
	case c.refused && ends != 0:
		return fmt.Errorf("refused and completed with %v", c.outcome)
	case c.refused:
		return nil
	case ends != 1:
		return fmt.Errorf("completed %d times", ends)
	case c.outcome == purgatory.Satisfied && !c.holds():
		return errors.New("satisfied by a condition that does not hold")
	case c.outcome == purgatory.Expired && c.took < c.timeout:
		return fmt.Errorf("a timeout of %v has ended after %v", c.timeout, c.took)
	case c.outcome == purgatory.Cancelled && (cancelled == 0 || cancelled > c.ended.Load()):
		return errors.New("cancelled, but nobody had asked for it")
	case c.outcome == purgatory.Stopped && closed > c.ended.Load():
		return errors.New("closed before it was")
	}
	return nil
}

// historyRun is the state of one history.
type historyRun struct {
	seed     uint64
	p        *purgatory.Purgatory[int]
	counters counters
	clock    atomic.Int64 // counts events
	closed   int64        // when the purgatory was stopped, 0 for never
	acts     [workers][]*client
}

const (
	workers  = 6
	requests = 1500 // of each worker
)

// TestHistory has goroutines park, cancel, change, check, let expire and stop, all at once, and
// verifies the history: every request has ended exactly once, as allowed; none has slept while its
// condition held.
func TestHistory(t *testing.T) {
	for seed := range uint64(6) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			s := &historyRun{seed: seed, p: start[int](t, purgatory.Config{Tick: time.Millisecond})}
			s.run(t, seed%2 == 1)
			s.verify(t, seed%2 == 1)
		})
	}
}

// work is the part of one goroutine, until it has done enough or is refused.
func (s *historyRun) work(worker int) {
	r := rand.New(rand.NewPCG(s.seed, uint64(worker)))
	var mine []*purgatory.Parked
	for range requests {
		c := s.newClient(r)
		s.acts[worker] = append(s.acts[worker], c)
		parked, err := s.p.Park(c, c.timeout, c.keys...)
		if c.refused = err != nil; c.refused {
			if !errors.Is(err, purgatory.ErrStopped) {
				c.fail("refused: %v", err)
			}
			return
		}
		mine = append(mine, parked)
		switch r.IntN(5) {
		case 0: // one of the last, which may not be completed
			n := max(r.IntN(len(mine)), len(mine)-1-r.IntN(30))
			s.acts[worker][n].cancelled.CompareAndSwap(0, s.clock.Add(1))
			mine[n].Cancel()
		case 1, 2:
			key := r.IntN(len(s.counters))
			s.counters[key].Add(1)
			s.p.Check(key)
		case 3:
			if r.IntN(50) == 0 {
				s.p.CheckAll()
			}
		}
	}
}

func (s *historyRun) newClient(r *rand.Rand) *client {
	c := &client{counters: &s.counters, clock: &s.clock, timeout: time.Hour, began: time.Now()}
	for range 1 + r.IntN(3) {
		key := r.IntN(len(s.counters))
		c.keys = append(c.keys, key)
		c.levels = append(c.levels, s.counters[key].Load()+int64(r.IntN(60)))
	}
	switch r.IntN(8) {
	case 0:
		c.timeout = time.Duration(r.IntN(3)) * time.Millisecond
	case 1:
		c.timeout = time.Duration(r.IntN(20)) * time.Millisecond
	}
	return c
}

func (s *historyRun) run(t *testing.T, stop bool) {
	var wg sync.WaitGroup
	for worker := range workers {
		wg.Go(func() { s.work(worker) })
	}
	if s.seed%3 == 0 { // the collector and its cleanups change the lists as well
		wg.Go(func() {
			for range 30 {
				runtime.GC()
			}
		})
	}
	if stop {
		for until := time.Now().Add(10 * time.Second); s.clock.Load() < workers*requests/4 && time.Now().Before(until); {
			<-time.After(time.Millisecond)
		}
		s.closed = s.clock.Add(1)
		s.p.Stop()
	}
	wg.Wait()

	// All changes were followed by a check, and only the clock is running: a request whose
	// condition holds has been woken.
	s.await(t, "sleep while their condition holds", func(c *client) bool { return c.ends.Load() == 0 && c.holds() })
	for key := range s.counters {
		s.counters[key].Add(1000)
		s.p.Check(key)
	}
	s.await(t, "are not over although all conditions hold", func(c *client) bool { return c.ended.Load() == 0 })
}

// await waits until no request that was accepted is in a state.
func (s *historyRun) await(t *testing.T, state string, in func(*client) bool) {
	t.Helper()
	count := func() (n int) {
		for _, cs := range s.acts {
			for _, c := range cs {
				if !c.refused && in(c) {
					n++
				}
			}
		}
		return n
	}
	for until := time.Now().Add(10 * time.Second); count() > 0; {
		if time.Now().After(until) {
			t.Fatalf("%d requests %s", count(), state)
		}
	}
}

func (s *historyRun) verify(t *testing.T, stopped bool) {
	outcomes := make(map[purgatory.Outcome]int)
	for worker, cs := range s.acts {
		for n, c := range cs {
			if err := c.verify(s.closed); err != nil {
				t.Errorf("request %d of worker %d: %v", n, worker, err)
			}
			outcomes[c.outcome]++
		}
	}
	t.Log(outcomes)
	for how := purgatory.Satisfied; how <= purgatory.Stopped; how++ {
		if (outcomes[how] == 0) != (how == purgatory.Stopped && !stopped) {
			t.Errorf("%d requests were %v: the history tries too little, or too much", outcomes[how], how)
		}
	}
	if s.p.Len() != 0 {
		t.Errorf("%d are parked when all are over", s.p.Len())
	}
	if err := s.p.Invariants(); err != nil {
		t.Error(err)
	}
	if s.p.CheckAll(); s.p.Watchers() != 0 {
		t.Errorf("%d watchers are left when all requests are over and all keys checked", s.p.Watchers())
	}
}
