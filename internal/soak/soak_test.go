package soak

import (
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/txmgr/txmgr/internal/rig"
)

// How long the load runs without faults before the first measurement, so that pools and caches are
// filled; and how often progress is reported.
const (
	warmUp   = 15 * time.Second
	progress = 10 * time.Second
)

// TestSoak: see the package's documentation.
func TestSoak(t *testing.T) {
	d := soakTime(t)
	b := newTestEnv(t)
	b.progressf("a load of %v, after %v without faults", d, warmUp)
	l := b.load(warmUp, false)
	before := b.awaitIdle(func(q resourceUse) error {
		return q.exceeds(resourceUse{goroutines: 1000, descriptors: 1000, heap: 1 << 30, own: 1000})
	})
	b.progressf("before: %v", before)
	l.made = append(l.made, b.load(d, true).made...)
	after := b.awaitIdle(func(q resourceUse) error { return q.exceeds(before) })
	b.money.checkConsistency(l.made)
	b.report(l, d, before, after)
}

// progressf reports progress at once, also when the test is not verbose.
func (b *testEnv) progressf(format string, args ...any) {
	fmt.Fprintf(os.Stderr, "soak: %s\n", fmt.Sprintf(format, args...))
}

// load runs the load for some time, with faults or without.
func (b *testEnv) load(d time.Duration, faults bool) *load {
	l := newLoad(b)
	var stop context.CancelFunc
	b.loadCtx, stop = context.WithCancel(b.t.Context())
	defer stop()
	ctx, enough := context.WithTimeout(b.loadCtx, d)
	defer enough()
	watching, over := context.WithCancel(b.t.Context())
	var busy, watchers sync.WaitGroup
	start := time.Now()
	b.writes.last = start
	b.calls.writeAcked = b.writeAcked
	watchers.Go(func() { b.must(b.hostStalls.Watch(watching, b.dir)) })
	watchers.Go(func() { b.watch(watching) })
	for _, n := range b.nodes {
		m := b.open(n.url, time.Second, false)
		busy.Go(func() { b.probeWrites(ctx, m); _ = m.Close() })
	}
	busy.Go(func() { b.stopOnStall(ctx, stop) })
	busy.Go(func() { l.run(ctx) })
	if faults {
		busy.Go(func() { b.injectFaults(ctx) })
	}
	busy.Go(func() {
		for rig.Sleep(ctx, progress) {
			b.progressf("%v: %s", time.Since(start).Round(time.Second), l.progress())
		}
	})
	busy.Wait()
	over()
	watchers.Wait()
	l.close()
	if b.writes.stalled != "" {
		b.t.Fatalf("after %v: %s", time.Since(start).Round(time.Second), b.lockWaiters())
	}
	return l
}

func (l *load) progress() string {
	l.mu.Lock()
	transfers := len(l.made)
	l.mu.Unlock()
	p := &l.b.writes
	p.mu.Lock()
	calm, elected := p.longest, p.longestWithElection
	p.mu.Unlock()
	return fmt.Sprintf("%d transfers, %d calls; longest pause of writes: %v, with elections %v; faults: %s",
		transfers, l.b.calls.total(), calm, elected, l.b.events.Counts())
}

// awaitIdle waits until everything has ended and nothing is held that should not be.
func (b *testEnv) awaitIdle(good func(resourceUse) error) resourceUse {
	b.must(b.checkHealthy(b.t.Context()))
	b.money.awaitIdle()
	q, err := b.measure(retention+rig.WaitTimeout, good)
	if err != nil {
		b.t.Errorf("growth: %v", err)
	}
	return q
}

// report fails a run without enough load, and logs the figures.
func (b *testEnv) report(l *load, d time.Duration, before, after resourceUse) {
	t := b.t
	for _, never := range b.events.NeverInjected(faultNames()...) {
		t.Errorf("it never struck: %s", never)
	}
	unexpected := b.calls.unexpected(&b.disturbances)
	for _, a := range unexpected[:min(len(unexpected), 20)] {
		t.Errorf("unexpected: %v", a)
	}
	if len(unexpected) > 20 {
		t.Errorf("%d answers were unexpected", len(unexpected))
	}
	outcomes := map[string]int{}
	for _, tr := range l.made {
		outcomes[tr.outcome]++
		outcomes[tr.kind+" "+tr.outcome]++
	}
	if least := int(d.Seconds()); outcomes[outcomeOK] < least {
		t.Errorf("%d transfers were committed: too few to show anything, want %d", outcomes[outcomeOK], least)
	}
	for _, must := range []string{kindPlain, kindSingle, kindShared} {
		if outcomes[must+" "+outcomeOK] == 0 {
			t.Errorf("no transfer that is %s was committed: %s", must, rig.FormatCounts(outcomes))
		}
	}
	if outcomes[kindAbandon+" "+outcomeRolledBack] == 0 || outcomes[kindCancelled+" "+outcomeRolledBack]+outcomes[kindCancelled+" "+outcomeInDoubt] == 0 {
		t.Errorf("nobody was too late: %s", rig.FormatCounts(outcomes))
	}
	b.calls.checkCoverage(t)
	t.Logf("transfers: %s", rig.FormatCounts(outcomes))
	t.Logf("calls:\n%s", b.calls)
	t.Logf("faults: %s; elections that no fault explains: %d", b.events.Counts(), b.disturbances.elections)
	t.Logf("longest pause of writes: %v; with an election made necessary: %v; the machine stood still for %v in all, %v at worst",
		b.writes.longest, b.writes.longestWithElection, b.hostStalls.During(time.Time{}, time.Now()).Round(time.Millisecond), b.hostStalls.Worst().Round(time.Millisecond))
	t.Logf("before: %v", before)
	t.Logf("after:  %v", after)
	if t.Failed() {
		t.Logf("what happened:\n%s", &b.events)
	}
}

// leastAnswers is how often each call must at least succeed.
const leastAnswers = 3

// checkCoverage fails a run in which a call was never made, or never succeeded.
func (r *recorder) checkCoverage(t *testing.T) {
	r.mu.Lock()
	defer r.mu.Unlock()
	names := slices.Clone(otherCalls)
	for _, c := range randomCalls() {
		names = append(names, c.name)
	}
	for _, name := range names {
		rec := r.records[name]
		switch {
		case name == "Close": // without it nothing would end
		case rec == nil:
			t.Errorf("%s was never called", name)
		case slices.Contains(refusals, name) && (rec.ok > 0 || rec.refused < leastAnswers):
			t.Errorf("%s was done %d times and refused %d times; it cannot be done here", name, rec.ok, rec.refused)
		case !slices.Contains(refusals, name) && rec.ok < leastAnswers && name != "TransferLeader":
			t.Errorf("%s was done %d times, want %d", name, rec.ok, leastAnswers)
		}
	}
}

func (r *recorder) total() (n int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, rec := range r.records {
		n += rec.ok + rec.refused
	}
	return n
}

// String is a table of all calls.
func (r *recorder) String() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	var b strings.Builder
	fmt.Fprintf(&b, "%-18s %8s %8s %10s %10s %10s  %s\n", "call", "done", "refused", "p50", "p99", "max", "excused")
	for _, name := range slices.Sorted(maps.Keys(r.records)) {
		rec := r.records[name]
		slices.Sort(rec.took)
		at := func(p float64) time.Duration {
			if len(rec.took) == 0 {
				return 0
			}
			return rec.took[int(p*float64(len(rec.took)-1))].Round(10 * time.Microsecond)
		}
		fmt.Fprintf(&b, "%-18s %8d %8d %10v %10v %10v  %s\n", name, rec.ok, rec.refused, at(.5), at(.99), at(1), rig.FormatCounts(rec.excused))
	}
	return b.String()
}

// lockWaiters returns the goroutines of the nodes that wait for the lock of the state, from the
// stacks that the nodes printed when they were ended; first those that read the state within a
// read.
func (b *testEnv) lockWaiters() string {
	var waiting []string
	for _, n := range b.nodes {
		text, err := os.ReadFile(filepath.Join(b.logs(), n.Name+".log"))
		if err != nil {
			b.t.Error(err)
			continue
		}
		for _, g := range strings.Split(string(text), "\n\n") {
			if strings.HasPrefix(g, "goroutine ") && strings.Contains(g, "Mutex") && strings.Contains(g, "raftfsm") {
				waiting = append(waiting, n.Name+": "+g)
			}
		}
	}
	looks := func(g string) int { return strings.Count(g, "FSM).View(") }
	slices.SortStableFunc(waiting, func(a, b string) int { return looks(b) - looks(a) })
	return fmt.Sprintf("%d goroutines wait for the lock of the state, for example\n%s", len(waiting), strings.Join(waiting[:min(len(waiting), 3)], "\n\n"))
}
