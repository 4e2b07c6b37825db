package purgatory_test

import (
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/txmgr/txmgr/timeout/purgatory"
)

const tick = 10 * time.Millisecond

func start[K comparable](t *testing.T, c purgatory.Config) *purgatory.Purgatory[K] {
	t.Helper()
	p, err := purgatory.Start[K](c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Stop)
	return p
}

func open(t *testing.T) *purgatory.Purgatory[string] {
	t.Helper()
	return start[string](t, purgatory.Config{Tick: tick})
}

// spy is a request that records how it is called.
type spy struct {
	ready atomic.Bool
	try   func(round int) bool // stands in for ready if it is set; round counts from one
	done  func(purgatory.Outcome)

	tries  atomic.Int32
	inside atomic.Int32 // calls that are running

	mu       sync.Mutex
	outcomes []purgatory.Outcome // guarded by mu
	faults   []string            // guarded by mu
}

func (s *spy) TryComplete() bool {
	defer s.enter("TryComplete")()
	round := s.tries.Add(1)
	if s.try != nil {
		return s.try(int(round))
	}
	return s.ready.Load()
}

func (s *spy) Complete(how purgatory.Outcome) {
	defer s.enter("Complete")()
	s.mu.Lock()
	s.outcomes = append(s.outcomes, how)
	s.mu.Unlock()
	if s.done != nil {
		s.done(how)
	}
}

func (s *spy) enter(what string) (leave func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.inside.Add(1) > 1 {
		s.faults = append(s.faults, what+" is called while another call runs")
	}
	if len(s.outcomes) > 0 {
		s.faults = append(s.faults, what+" is called after Complete")
	}
	return func() { s.inside.Add(-1) }
}

// seen returns the outcome of the request, and the faults of its calls.
func (s *spy) seen() (outcomes []purgatory.Outcome, faults []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.outcomes), slices.Clone(s.faults)
}

// ended checks the outcome of the request; none means not yet.
func (s *spy) ended(t *testing.T, want ...purgatory.Outcome) {
	t.Helper()
	outcomes, faults := s.seen()
	if !slices.Equal(outcomes, want) {
		t.Errorf("completed with %v, want %v", outcomes, want)
	}
	for _, f := range faults {
		t.Error(f)
	}
}

// park parks a request that is not satisfied.
func park(t *testing.T, p *purgatory.Purgatory[string], s *spy, timeout time.Duration, keys ...string) *purgatory.Parked {
	t.Helper()
	r, err := p.Park(s, timeout, keys...)
	if err != nil {
		t.Fatal(err)
	}
	if r == nil || r.Done() {
		t.Fatal("the request is over when Park returns")
	}
	return r
}
