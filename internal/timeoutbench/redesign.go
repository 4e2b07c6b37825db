package timeoutbench

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/txmgr/txmgr/timeout"
	"github.com/txmgr/txmgr/timeout/survival"
)

// Limits of [Redesign].
const (
	MaxUsers      = 1000
	MaxIterations = 10_000
)

// Redesign is the experiment that the survival index was first presented with: users that begin and
// end one transaction after the other, under a timeout manager that visits every pending
// transaction whenever its thread runs, and under one that visits those that are due.
//
// The request of the original is not known. Here it is a wait, so that the time of a run beyond the
// waits is the time for which the managers make their users wait.
type Redesign struct {
	Users      int           // at the same time
	Iterations int           // of each
	Work       time.Duration // for which a transaction is open
	Interval   time.Duration // between two invocations of the timeout thread
	Pending    int           // transactions of others, which stay open throughout
}

// OriginalRedesign is the experiment with the numbers of the original, as far as they are known:
// 30 users, 30 iterations, no other transactions.
func OriginalRedesign() Redesign {
	return Redesign{Users: 30, Iterations: 30, Work: 50 * time.Millisecond, Interval: 100 * time.Millisecond}
}

// RedesignResult is the result of one manager.
type RedesignResult struct {
	Elapsed time.Duration `json:"elapsed_ns"` // of all users
	// Waited is what a user waits for the manager, of both calls of a transaction: the 99th percentile, and the longest.
	Waited    time.Duration `json:"waited_p99_ns"`
	WaitedMax time.Duration `json:"waited_max_ns"`
	// Invocation is the time of a processor that one takes, the median, and the longest.
	Invocation    time.Duration `json:"invocation_ns"`
	InvocationMax time.Duration `json:"invocation_max_ns"`
	Invocations   int           `json:"invocations"`
	Timeouts      int           `json:"timeouts"` // transactions that timed out
}

// MedianResult is the median of each figure in several results, at least one; the longest times are the longest of all.
func MedianResult(rounds []RedesignResult) RedesignResult {
	of := func(pick func(RedesignResult) time.Duration) []time.Duration {
		var all []time.Duration
		for _, r := range rounds {
			all = append(all, pick(r))
		}
		return all
	}
	m := rounds[0]
	m.Elapsed = Median(of(func(r RedesignResult) time.Duration { return r.Elapsed }))
	m.Waited = Median(of(func(r RedesignResult) time.Duration { return r.Waited }))
	m.WaitedMax = slices.Max(of(func(r RedesignResult) time.Duration { return r.WaitedMax }))
	m.Invocation = Median(of(func(r RedesignResult) time.Duration { return r.Invocation }))
	m.InvocationMax = slices.Max(of(func(r RedesignResult) time.Duration { return r.InvocationMax }))
	return m
}

// Manager is a timeout manager: what the users share, and the thread.
type Manager interface {
	// Begin adds a transaction that times out at the invocation with the number end. Its handle goes to End, which ends it
	// and reports whether it was still there.
	Begin(id uint64, end timeout.Tick) survival.Ref
	End(id uint64, ref survival.Ref) bool
	// Invoke is run number now of the timeout thread. It returns the transactions that have timed
	// out.
	Invoke(now timeout.Tick) []uint64
}

// NewScan makes the original manager, which visits every pending transaction at every invocation.
func NewScan() Manager { return &scanManager{pending: make(map[uint64]timeout.Tick)} }

type scanManager struct {
	mu      sync.Mutex
	pending map[uint64]timeout.Tick // guarded by mu
}

func (m *scanManager) Begin(id uint64, end timeout.Tick) survival.Ref {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.pending[id] = end
	return 0
}

func (m *scanManager) End(id uint64, _ survival.Ref) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	_, ok := m.pending[id]
	delete(m.pending, id)
	return ok
}

func (m *scanManager) Invoke(now timeout.Tick) []uint64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	var due []uint64
	for id, end := range m.pending {
		if end <= now {
			due = append(due, id)
			delete(m.pending, id)
		}
	}
	return due
}

// NewSurvivalManager makes the manager of the redesign.
func NewSurvivalManager() Manager { return &survivalManager{table: survival.NewTable(0)} }

type survivalManager struct {
	mu    sync.Mutex
	table *survival.Table // guarded by mu
}

func (m *survivalManager) Begin(id uint64, end timeout.Tick) survival.Ref {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.table.Add(id, end)
}

func (m *survivalManager) End(id uint64, ref survival.Ref) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.table.Cancel(id, ref)
}

func (m *survivalManager) Invoke(now timeout.Tick) []uint64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.table.Advance(now)
	if !m.table.Due() {
		return nil
	}
	due := make([]uint64, 0, batch)
	for n := 1; n > 0; {
		due = slices.Grow(due, batch)
		n = m.table.Expire(due[len(due) : len(due)+batch])
		due = due[:len(due)+n]
	}
	return due
}

// Check reports why the experiment cannot be carried out, if it cannot.
func (r Redesign) Check() error {
	switch {
	case r.Users < 1 || r.Users > MaxUsers:
		return fmt.Errorf("%d users: want 1 to %d", r.Users, MaxUsers)
	case r.Iterations < 1 || r.Iterations > MaxIterations:
		return fmt.Errorf("%d iterations: want 1 to %d", r.Iterations, MaxIterations)
	case r.Pending < 0 || r.Pending > MaxSize:
		return fmt.Errorf("%d pending transactions: want 0 to %d", r.Pending, MaxSize)
	case r.Work < 0 || r.Work > 10*time.Second:
		return fmt.Errorf("work of %v: want 0 to 10s", r.Work)
	case r.Interval < time.Millisecond || r.Interval > time.Second:
		return fmt.Errorf("interval of %v: want 1ms to 1s", r.Interval)
	}
	return nil
}

// errLost means that a transaction is gone that was not ended.
var errLost = errors.New("a transaction was lost: this is a fault of the manager")

// Run carries the experiment out with one manager, which is new. It ends early when ctx does.
func (r Redesign) Run(ctx context.Context, m Manager) (RedesignResult, error) {
	if err := r.Check(); err != nil {
		return RedesignResult{}, fmt.Errorf("experiment: %w", err)
	}
	timeouts := timeout.Tick(time.Minute / r.Interval) // long enough that no user times out
	for n := range r.Pending {
		m.Begin(uint64(r.Users*r.Iterations+n+1), 100*timeouts+timeout.Tick(n%6000))
	}
	t := newTimeoutThread(m)
	stopped := make(chan struct{})
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	go func() {
		defer close(stopped)
		t.run(ctx, r.Interval)
	}()

	waits := make([][]time.Duration, r.Users)
	var users sync.WaitGroup
	start := time.Now()
	for u := range r.Users {
		users.Go(func() {
			for i := range r.Iterations {
				id := uint64(u*r.Iterations + i + 1)
				asked := time.Now()
				ref := m.Begin(id, t.now()+timeouts)
				waited := time.Since(asked)
				if !sleepFor(ctx, r.Work) {
					return
				}
				asked = time.Now()
				ok := m.End(id, ref)
				waits[u] = append(waits[u], waited+time.Since(asked))
				if !ok {
					cancel(errLost)
				}
			}
		})
	}
	users.Wait()
	result := RedesignResult{Elapsed: time.Since(start)}
	err := context.Cause(ctx)
	cancel(nil)
	<-stopped
	if err != nil {
		return RedesignResult{}, err
	}
	all := slices.Concat(waits...)
	slices.Sort(all)
	result.Waited, result.WaitedMax = all[len(all)*99/100], all[len(all)-1]
	t.report(&result)
	return result, nil
}

// sleepFor waits, and reports false if ctx has ended.
func sleepFor(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}
