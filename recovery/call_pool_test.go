package recovery

import (
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/txmgr/txmgr/adaptive"
	"github.com/txmgr/txmgr/txn"
)

// spy is an optimizer that keeps its windows, and leaves the limit as it is.
type spy struct {
	mu      sync.Mutex
	windows []adaptive.Window
}

func (s *spy) Period() time.Duration { return 100 * time.Millisecond }

func (s *spy) Observe(w *adaptive.Window) adaptive.Decision {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.windows = append(s.windows, *w)
	return adaptive.Decision{Limit: w.Limit}
}

// seen sums up all windows so far.
func (s *spy) seen() (completed uint64, bound time.Duration, limits []int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, w := range s.windows {
		completed += w.Completed
		bound += w.BoundTime
		limits = append(limits, w.Limit)
	}
	return completed, bound, slices.Compact(limits)
}

// TestFailuresTeachNothing: a pool learns from answers. Calls that time out, fail, or
// panic are not completed, and work that was done by others was never begun.
func TestFailuresTeachNothing(t *testing.T) {
	for name, f := range map[string]fault{"hangs": hang, "fails": fail, "answers late": late, "panics": crash, "answers nonsense": lie} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				log, s := newLog(), new(spy)
				res := newParticipant(log, "a")
				res.setFault(always(f))
				r := begin(t, Config{NewOptimizer: func() adaptive.Optimizer { return s }, BreakerThreshold: 1000}, log)
				for n := range 100 {
					log.put(idOf(n+1), txn.Committing, "a")
					r.Add(idOf(n + 1))
				}
				sleep(t.Context(), time.Minute)
				if completed, _, _ := s.seen(); completed != 0 || len(res.made()) < 90 {
					t.Errorf("%d of %d calls count as completed", completed, len(res.made()))
				}
				res.setFault(nil)
				for n := range 50 {
					log.ack(idOf(n + 1))
				}
				within(t, 2*time.Minute, "all", log.allDone)
				sleep(t.Context(), time.Second)
				if completed, _, _ := s.seen(); completed < 50 || completed > 50+uint64(r.cfg.Start) {
					t.Errorf("%d count as completed, of 50 that were left, and at most %d under way", completed, r.cfg.Start)
				}
			})
		})
	}
}

// TestWaitingForSomethingElseBindsNothing: a wait for a participant that is down, or
// for a log that accepts no results, is no reason for more workers.
func TestWaitingForSomethingElseBindsNothing(t *testing.T) {
	for name, down := range map[string]func(*fakeLog, *fakeParticipant){
		"the participant": func(_ *fakeLog, res *fakeParticipant) { res.setFault(always(fail)) },
		"the log": func(log *fakeLog, _ *fakeParticipant) {
			log.failReports(func(txn.ID, int) error { return errNoLeader })
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				log, s := newLog(), new(spy)
				res := newParticipant(log, "a")
				down(log, res)
				r := begin(t, Config{NewOptimizer: func() adaptive.Optimizer { return s }}, log)
				for n := range 10_000 {
					log.put(idOf(n+1), txn.Committing, "a")
					r.Add(idOf(n + 1))
				}
				sleep(t.Context(), 20*time.Second)
				if _, bound, _ := s.seen(); bound > time.Second {
					t.Errorf("the limit is said to have been binding for %v", bound)
				}
				log.failReports(nil)
				res.setFault(nil)
				within(t, 5*time.Minute, "all", log.allDone)
				if _, bound, _ := s.seen(); bound < 300*time.Millisecond {
					t.Errorf("the limit was binding for %v only, with all up", bound)
				}
			})
		})
	}
}

// TestRestingKeepsWhatWasLearnt: a lane without work has no pool after a while, and continues
// with the limit that was found.
func TestRestingKeepsWhatWasLearnt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := newLog()
		res := newParticipant(log, "a")
		res.latency = 20 * time.Millisecond
		r := begin(t, Config{}, log)
		work := func(from, n int) {
			for k := range n {
				log.put(idOf(from+k), txn.Committing, "a")
				r.Add(idOf(from + k))
			}
			within(t, time.Minute, "all", log.allDone)
			log.renew()
			synctest.Wait()
		}
		pool := func() *adaptive.Pool {
			r.mu.Lock()
			defer r.mu.Unlock()
			return r.lanes.byName["a"].workerPool.pool
		}
		work(1, 30_000)
		learnt, first := r.Health("a").Limit, pool()
		if learnt <= r.cfg.Start || first == nil {
			t.Fatalf("a limit of %d after a climb", learnt)
		}
		decided := len(r.Decisions("a"))
		sleep(t.Context(), poolIdleTimeout/2)
		work(30_001, 1)
		if pool() != first {
			t.Error("another pool after a moment without work")
		}
		sleep(t.Context(), 2*poolIdleTimeout)
		if h := r.Health("a"); pool() != nil || h.Limit != learnt || len(r.Decisions("a")) < decided {
			t.Errorf("at rest: pool %v, limit %d, %d decisions; want none, %d, %d", pool(), h.Limit, len(r.Decisions("a")), learnt, decided)
		}
		res.most = 0
		work(30_002, 1000)
		if h := r.Health("a"); res.most != learnt || h.Limit != learnt || pool() == first {
			t.Errorf("after the rest: %d calls at once, limit %d; want %d", res.most, h.Limit, learnt)
		}
	})
}

// TestWorkComesWhileThePoolLeaves: no work is lost that arrives at the moment at which
// a lane has no pool and may not have another.
func TestWorkComesWhileThePoolLeaves(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := newLog()
		newParticipant(log, "a")
		r := begin(t, Config{}, log)
		for n := range 50 {
			log.put(idOf(n+1), txn.Committing, "a")
			r.Add(idOf(n + 1))
			within(t, time.Second, "commit", log.allDone)
			log.renew()
			synctest.Wait()
			log.put(idOf(1000+n), txn.Committing, "a")
			r.mu.Lock()
			r.closePoolLocked(r.lanes.byName["a"])
			r.enqueueLocked(idOf(1000+n), 0)
			r.mu.Unlock()
			within(t, time.Second, "commit", log.allDone)
			log.renew()
			synctest.Wait()
		}
		wantEmpty(t, r)
	})
}

// lazy is an optimizer that no pool accepts.
type lazy struct{ spy }

func (*lazy) Period() time.Duration { return 0 }

func TestRefusedOptimizer(t *testing.T) {
	for name, give := range map[string]func() adaptive.Optimizer{
		"without a period": func() adaptive.Optimizer { return new(lazy) },
		"none":             func() adaptive.Optimizer { return nil },
		"far too large":    func() adaptive.Optimizer { return adaptive.Fixed(adaptive.MaxLimit + 1) },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				log := newLog()
				newParticipant(log, "a")
				r := begin(t, Config{NewOptimizer: give}, log)
				log.put(idOf(1), txn.Committing, "a")
				r.Add(idOf(1))
				within(t, time.Second, "commit", log.allDone)
				said := map[string]string{"without a period": "period", "far too large": "limit"}[name]
				all := r.Decisions("a")
				if said == "" && len(all) > 0 || said != "" && (len(all) != 1 || !strings.Contains(all[0].Why, said)) {
					t.Errorf("decisions: %+v", all)
				}
			})
		})
	}
}

// TestHungForLong: a participant that never answers gets no more calls than in the
// beginning, however long that lasts, and when it is back as many as before.
func TestHungForLong(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := newLog()
		res := newParticipant(log, "a")
		res.latency = 20 * time.Millisecond
		res.setFault(always(hang))
		r := begin(t, Config{}, log)
		for n := range 10_000 {
			log.put(idOf(n+1), txn.Committing, "a")
			r.Add(idOf(n + 1))
		}
		most := func() int {
			res.mu.Lock()
			defer res.mu.Unlock()
			return res.most
		}
		sleep(t.Context(), 10*time.Minute)
		if n := most(); n > r.cfg.Start {
			t.Errorf("%d calls at once: %+v", n, r.Decisions("a"))
		}
		res.setFault(nil)
		within(t, time.Minute, "all, after it came back", log.allDone)
		if n := most(); n < r.cfg.Start {
			t.Errorf("%d calls at once after it came back: %+v", n, r.Decisions("a"))
		}
	})
}
