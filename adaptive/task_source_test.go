package adaptive

import (
	"context"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// groupedSource is a task source like recovery's: work of several classes in several groups,
// each of which may have half of the limit, and one may be down.
type groupedSource struct {
	pool *Pool

	mu      sync.Mutex // guards what follows
	turns   *WeightedRoundRobin
	parties []*taskGroup
	next    int // group to begin with
	most    int // tasks that ran at once
	running int
}

type taskGroup struct {
	waiting [3][]Task
	running int
	most    int
	down    bool
}

func newGroupedSource(t testing.TB, parties int) *groupedSource {
	t.Helper()
	turns, err := NewWeightedRoundRobin(8, 3, 1)
	if err != nil {
		t.Fatal(err)
	}
	l := &groupedSource{turns: turns}
	for range parties {
		l.parties = append(l.parties, &taskGroup{})
	}
	return l
}

func share(limit int) int { return max(1, limit/2) }

// add adds work.
func (l *groupedSource) add(at, class int, tasks ...Task) {
	l.mu.Lock()
	defer l.mu.Unlock()
	p := l.parties[at]
	p.waiting[class] = append(p.waiting[class], tasks...)
	l.offerLocked(l.pool.Limit())
}

// offerLocked tells the pool what is ready; mu is held.
func (l *groupedSource) offerLocked(limit int) {
	ready, held := 0, 0
	for _, p := range l.parties {
		n := 0
		for _, w := range p.waiting {
			n += len(w)
		}
		if p.down {
			continue
		}
		now := min(n, max(0, share(limit)-p.running))
		ready += now
		held += n - now
	}
	l.pool.SetReady(ready, held)
}

// Next returns a task of the next class, from the next group that may run one.
func (l *groupedSource) Next(limit int) (Task, time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	defer l.offerLocked(limit)
	find := func(class int) int {
		for i := range l.parties {
			at := (l.next + i) % len(l.parties)
			p := l.parties[at]
			if len(p.waiting[class]) > 0 && p.running < share(limit) && !p.down {
				return at
			}
		}
		return -1
	}
	class, ok := l.turns.Next(func(class int) bool { return find(class) >= 0 })
	if !ok {
		return nil, time.Time{}
	}
	at := find(class)
	l.next = at + 1
	p := l.parties[at]
	task := p.waiting[class][0]
	p.waiting[class] = p.waiting[class][1:]
	p.running++
	p.most = max(p.most, p.running)
	l.running++
	l.most = max(l.most, l.running)
	return func() error {
		err := task()
		l.mu.Lock()
		defer l.mu.Unlock()
		p.running--
		l.running--
		l.offerLocked(l.pool.Limit())
		return err
	}, time.Time{}
}

func withFeed(t testing.TB, l *groupedSource, cfg Config) *Pool {
	t.Helper()
	cfg.TaskSource = l
	l.pool = open(t, cfg)
	return l.pool
}

// Commits before rollbacks before sweep results, by weight, and none is left out.
func TestPrecedence(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newGroupedSource(t, 2)
		withFeed(t, l, Config{Optimizer: Fixed(1)})
		g := newGate()
		l.add(0, 2, g.wait) // nothing else starts before all have come
		synctest.Wait()
		var got []int
		for class := range 3 {
			for n := range 24 {
				l.add(n%2, class, func() error { got = append(got, class); return nil })
			}
		}
		synctest.Wait()
		close(g.open)
		synctest.Wait()
		counts := [3]int{}
		for _, class := range got[:24] {
			counts[class]++
		}
		if len(got) != 72 || counts != [3]int{16, 6, 2} {
			t.Errorf("%d ran; of the first 24 %v", len(got), counts)
		}
		if alone := slices.Index(got, 2); alone > 12 {
			t.Errorf("the last class had to wait for %d others", alone)
		}
	})
}

// A group that hangs has half of the workers, and does not keep others from the rest.
func TestShares(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newGroupedSource(t, 3)
		p := withFeed(t, l, Config{Optimizer: Fixed(8)})
		g := newGate()
		for range 20 {
			l.add(0, 0, g.wait)
		}
		synctest.Wait()
		start := time.Now()
		var done atomic.Int32
		for range 40 {
			l.add(1, 1, lasting(time.Second))
			l.add(2, 2, func() error { done.Add(1); return nil })
		}
		<-time.After(10 * time.Second)
		synctest.Wait()
		l.mu.Lock()
		left := len(l.parties[1].waiting[1])
		l.mu.Unlock()
		if g.at.Load() != 4 || left != 0 || done.Load() != 40 {
			t.Errorf("after %v: %d hang, %d are left of the slow ones, %d are done of the fast ones", time.Since(start), g.at.Load(), left, done.Load())
		}
		if l.most > 8 || l.parties[0].most > 4 || l.parties[1].most > 4 {
			t.Errorf("%d ran at once, %d and %d of one party", l.most, l.parties[0].most, l.parties[1].most)
		}
		// A larger limit means larger shares, though nothing has ended meanwhile.
		if err := p.Resize(20); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if n := g.at.Load(); n != 10 {
			t.Errorf("%d hang under a limit of 20", n)
		}
		close(g.open)
	})
}

// The limit binds as long as there is work that a larger one would let start, be it
// for the share of a group; and not because of work in one that is down.
func TestBound(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newGroupedSource(t, 2)
		spy := newSpy(8)
		withFeed(t, l, Config{Optimizer: spy, Start: 8})
		for range 6 {
			l.add(0, 0, lasting(450*time.Millisecond)) // four at once
		}
		<-time.After(1500 * time.Millisecond)
		l.mu.Lock()
		l.parties[1].down = true
		l.mu.Unlock()
		for range 6 {
			l.add(1, 0, lasting(time.Second))
		}
		<-time.After(time.Second)
		synctest.Wait()
		got := spy.windows()
		if w := got[0]; w.BoundTime != 450*time.Millisecond || w.BusyTime != 2700*time.Millisecond || w.BusyMax != 4 || w.Completed != 6 || w.Arrived != 6 {
			t.Errorf("held by its share: %+v", w)
		}
		if w := got[1]; w.BoundTime != 0 || w.QueueLen != 0 || w.BusyTime != 0 {
			t.Errorf("one is down: %+v", w)
		}
		l.mu.Lock()
		l.parties[1].down = false
		l.mu.Unlock()
		l.add(1, 0) // say so
		<-time.After(3 * time.Second)
	})
}

// Invariant 10: the source is asked for all ready tasks, whatever else changes meanwhile.
func TestNoOfferIsLost(t *testing.T) {
	l := newGroupedSource(t, 4)
	p := withFeed(t, l, Config{Optimizer: Fixed(0), Start: 3})
	var all, tasks sync.WaitGroup
	for i := range 4 {
		all.Go(func() {
			r := rand.New(rand.NewPCG(uint64(i), 1))
			for range 1000 {
				tasks.Add(1)
				l.add(r.IntN(4), r.IntN(3), func() error { tasks.Done(); return nil })
				if r.IntN(50) == 0 {
					if err := p.Resize(1 + r.IntN(8)); err != nil {
						t.Error(err)
					}
				}
				if r.IntN(10) == 0 {
					if err := p.Do(t.Context(), func() error { return nil }); err != nil {
						t.Error(err)
					}
				}
			}
		})
	}
	all.Wait()
	tasks.Wait() // or the test's deadline
	for _, party := range l.parties {
		if party.most > 4 {
			t.Errorf("%d of one party ran at once", party.most)
		}
	}
}

// lyingSource announces work, and has none.
type lyingSource struct{ asked int }

func (l *lyingSource) Next(int) (Task, time.Time) { l.asked++; return nil, time.Time{} }

func TestFeedThatLies(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := &lyingSource{}
		p := open(t, Config{Optimizer: Fixed(1), TaskSource: l})
		p.SetReady(1_000_000_000, -5)
		synctest.Wait()
		if s := p.Stats(); l.asked != 1 || s.Running != 0 || s.Waiting != maxReady {
			t.Errorf("asked %d times, %+v", l.asked, s)
		}
		if err := p.Do(t.Context(), func() error { return nil }); err != nil {
			t.Error(err)
		}
	})
}

// scripted is a task source of which each call of Next is a step.
type scripted struct {
	mu    sync.Mutex // guards steps
	steps []func(limit int) Task
}

func (s *scripted) Next(limit int) (Task, time.Time) {
	s.mu.Lock()
	if len(s.steps) == 0 {
		s.mu.Unlock()
		return nil, time.Time{}
	}
	step := s.steps[0]
	s.steps = s.steps[1:]
	s.mu.Unlock()
	return step(limit), time.Time{}
}

// The source may not have seen changes that came while it was asked: then it is asked again.
func TestFeedIsAskedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &scripted{}
		p := open(t, Config{Optimizer: Fixed(0), Start: 2, TaskSource: s})
		ran := 0
		task := func() error { ran++; return nil }
		s.steps = []func(int) Task{
			func(int) Task { p.SetReady(1, 0); return nil }, // work came, too late for this call
			func(int) Task { p.SetReady(0, 0); return task },
		}
		p.SetReady(1, 0)
		synctest.Wait()
		if ran != 1 {
			t.Error("an offer was lost")
		}

		g := newGate()
		defer close(g.open)
		var limits []int
		resize := func(to int, give Task) func(int) Task {
			return func(limit int) Task {
				limits = append(limits, limit)
				p.SetReady(0, 0) // nothing else: for another limit the source has to be asked
				if err := p.Resize(to); err != nil {
					t.Error(err)
				}
				return give
			}
		}
		look := func(limit int) Task { limits = append(limits, limit); return nil }
		s.steps = []func(int) Task{
			resize(8, g.wait), look, // with a task
			resize(9, nil), look, // without one
		}
		p.SetReady(1, 0)
		synctest.Wait()
		p.SetReady(1, 0)
		synctest.Wait()
		if want := []int{2, 8, 8, 9}; !slices.Equal(limits, want) {
			t.Errorf("asked under limits of %v, not %v", limits, want)
		}
	})
}

// SetReady without a source has no effect, and Close does not wait for one.
func TestOfferOfNothing(t *testing.T) {
	p := open(t, Config{})
	p.SetReady(3, 3)
	if s := p.Stats(); s.Running != 0 || s.Waiting != 0 {
		t.Errorf("%+v", s)
	}
	synctest.Test(t, func(t *testing.T) {
		l := newGroupedSource(t, 1)
		p := withFeed(t, l, Config{Optimizer: Fixed(2)})
		ran := 0
		for range 10 {
			l.add(0, 0, func() error { ran++; return lasting(time.Second)() })
		}
		synctest.Wait()
		if err := p.Close(context.Background()); err != nil {
			t.Error(err)
		}
		if ran != 1 {
			t.Errorf("%d ran of a closed pool's feed", ran)
		}
	})
}

func TestTurns(t *testing.T) {
	for _, weights := range [][]int{nil, {0}, {1, -1}, {1_000_001}} {
		if turns, err := NewWeightedRoundRobin(weights...); turns != nil || err == nil {
			t.Errorf("%v: %v", weights, err)
		}
	}
	turns, err := NewWeightedRoundRobin(8, 3, 1)
	if err != nil {
		t.Fatal(err)
	}
	if class, ok := turns.Next(func(int) bool { return false }); ok {
		t.Errorf("nobody has work, yet it is the turn of %d", class)
	}
	for range 100 { // saves nothing up
		if class, ok := turns.Next(func(c int) bool { return c == 2 }); !ok || class != 2 {
			t.Fatal("the only one with work is not served")
		}
	}
	turns.credit = []int{-4, 3, 1}
	turns.Next(func(c int) bool { return c == 0 })
	if turns.credit[1] != 0 || turns.credit[2] != 0 {
		t.Errorf("those without work have credit: %v", turns.credit)
	}
	turns.credit[0] = 0
	var counts [3]int
	for range 120 {
		class, _ := turns.Next(func(int) bool { return true })
		counts[class]++
	}
	if counts != [3]int{80, 30, 10} {
		t.Errorf("turns: %v", counts)
	}
}
