package recovery

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/txmgr/txmgr/adaptive"
	"github.com/txmgr/txmgr/recovery/breaker"
	"github.com/txmgr/txmgr/recovery/plan"
	"github.com/txmgr/txmgr/txn"
)

// TestDefaults checks the defaults that the comments of Config promise.
func TestDefaults(t *testing.T) {
	got := Config{}.withDefaults()
	if got.Rand == nil {
		t.Error("no Rand")
	}
	got.Rand = nil
	want := Config{
		MaxPerParticipant: 256, Start: 16, MaxCalls: 4096, MaxReports: 256, CallTimeout: 10 * time.Second,
		BackoffBase: 100 * time.Millisecond, BackoffMax: 30 * time.Second, BreakerThreshold: 5, BreakerMax: 5 * time.Second,
		SweepLimit: 1000, ClientGrace: time.Second, SweepEvery: DefaultSweepEvery,
	}
	if diff := cmp.Diff(want, got, cmp.AllowUnexported(OptimizerSpec{})); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	off := Config{ClientGrace: -1, SweepEvery: -1, MaxPerParticipant: adaptive.MaxLimit + 1, Start: adaptive.MaxLimit + 1}.withDefaults()
	if off.ClientGrace != -1 || off.SweepEvery != -1 || off.MaxPerParticipant != adaptive.MaxLimit || off.Start != adaptive.MaxLimit {
		t.Errorf("%+v", off)
	}
}

// TestReporterAtItsLimits: it refuses at four times its limit, and accepts at three times.
func TestReporterAtItsLimits(t *testing.T) {
	o := reporter{limit: 4, br: breaker.Breaker{Threshold: 1, Backoff: breaker.Backoff{Base: time.Second, Max: time.Second, Rand: func() float64 { return 1 }}}}
	hold := func(n int) {
		for ; o.queue.Len()+o.running < n; o.queue.Push(idOf(n)) {
		}
		for o.queue.Len()+o.running > n {
			o.queue.Pop()
		}
	}
	o.running = 3
	for i, step := range []struct {
		n    int
		open bool
	}{{15, true}, {16, false}, {15, false}, {13, false}, {12, true}, {13, true}, {15, true}, {17, false}, {12, true}} {
		hold(step.n)
		if got := o.accepting(0); got != step.open {
			t.Errorf("step %d, with %d findings: open %v", i, step.n, got)
		}
	}
	o.br.Failure(0, false)
	if o.accepting(0) || !o.accepting(time.Second) {
		t.Errorf("behind an open breaker, with nothing to report: %v, and %v when its time has come", o.accepting(0), o.accepting(time.Second))
	}
	o.batches = map[txn.ID]*reportBatch{idOf(1): {}}
	if o.accepting(time.Second) {
		t.Error("new work is to probe the log, although there is something to report")
	}
}

// TestSharesAtTheLimit: the calls that a lane may begin when there are just enough, and when not.
func TestSharesAtTheLimit(t *testing.T) {
	r := New(Config{MaxCalls: 4, SweepEvery: -1, NewOptimizer: fixed(2)}, newLog())
	defer r.Stop()
	r.mu.Lock()
	defer r.mu.Unlock()
	a, b := r.laneLocked("a"), r.laneLocked("b")
	share := func(what string, l *lane, ready, want int) {
		t.Helper()
		if got := r.calls.allowedLocked(l, ready); got != want {
			t.Errorf("%s: %d may begin; want %d", what, got, want)
		}
	}
	state := func(what string, kept, short int) {
		t.Helper()
		if r.calls.reserved != kept || len(r.calls.starved) != short {
			t.Errorf("%s: %d calls are kept and %d lanes short; want %d and %d", what, r.calls.reserved, len(r.calls.starved), kept, short)
		}
	}
	r.calls.running = 3
	share("one is free", a, 5, 1)
	share("one is free, and nothing ready", a, 0, 0)
	r.calls.running = 2
	share("two are free", a, 5, 2)
	share("two are free, and one is ready", a, 1, 1)
	r.calls.running, a.running, b.running = 4, 1, 1
	share("none is free", a, 5, 0)
	share("none is free, asked again", a, 5, 0)
	share("none is free", b, 5, 0)
	state("two lanes wait", 0, 2)
	c := r.laneLocked("c")
	share("none is free, and it has none", c, 5, 1)
	r.reserveLocked()
	state("none is free", 0, 2)
	for _, l := range []*lane{a, b} {
		l.waiting.queues[queueOf(plan.Commit)].Push(queuedItem{item: item{Key: plan.Key{TX: idOf(1), Branch: 1}, action: plan.Commit}})
	}
	a.workerPool.limit, b.workerPool.limit = 2, 1
	a.workerPool.optimizer, b.workerPool.optimizer = &countingOptimizer{spec: r.optimizerFor(a.name)}, &countingOptimizer{spec: r.optimizerFor(b.name)}
	r.calls.running = 3
	r.reserveLocked()
	state("one is free, and kept for the first", 1, 1)
	if !a.reserved || b.reserved || !b.starved || a.starved {
		t.Errorf("called: %v, %v; short: %v, %v", a.reserved, b.reserved, a.starved, b.starved)
	}
	share("one is kept for it", a, 5, 1)
	share("one is kept for another", b, 5, 0)
	r.calls.unreserveLocked(a)
	r.reserveLocked()
	state("the next is at its own limit", 0, 0)
	if b.reserved || b.starved {
		t.Errorf("a lane at its own limit: called %v, short %v", b.reserved, b.starved)
	}
	a.reserved, r.calls.reserved = true, 1
	share("nothing is ready any more", a, 0, 0)
	state("nothing is ready any more", 0, 0)
}

// TestOptimizerCounts decisions that raise and that lower the limit, and no others.
func TestOptimizerCounts(t *testing.T) {
	limit := 0
	b := &countingOptimizer{Optimizer: decider(func(*adaptive.Window) int { return limit })}
	for _, limit = range []int{4, 5, 9, 3, 4} {
		b.Observe(&adaptive.Window{Limit: 4})
	}
	if raised, lowered := b.raised.Load(), b.lowered.Load(); raised != 2 || lowered != 1 {
		t.Errorf("%d raised, %d lowered; want 2 and 1", raised, lowered)
	}
}

type decider func(*adaptive.Window) int

func (decider) Period() time.Duration { return 100 * time.Millisecond }

func (d decider) Observe(w *adaptive.Window) adaptive.Decision {
	return adaptive.Decision{Limit: d(w), Why: "test"}
}

// TestHealthTellsTheLastDecision while there is a pool.
func TestHealthTellsTheLastDecision(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := newLog()
		newParticipant(log, "a").latency = 10 * time.Millisecond
		r := begin(t, Config{Start: 2, NewOptimizer: func() adaptive.Optimizer {
			return decider(func(w *adaptive.Window) int { return min(w.Limit+1, 5) })
		}}, log)
		for n := range 1000 {
			log.put(idOf(n+1), txn.Committing, "a")
			r.Add(idOf(n + 1))
		}
		sleep(t.Context(), time.Second)
		if h := r.Health("a"); h.Last.To != 5 || h.Last.Why != "test" || h.Raised != 3 || h.Lowered != 0 || h.Limit != 5 {
			t.Errorf("limit %d, raised %d, lowered %d, last %+v", h.Limit, h.Raised, h.Lowered, h.Last)
		}
		within(t, time.Minute, "all", log.allDone)
	})
}

// TestBusyByAnyCall: every call under way for a branch, and every result still to be reported,
// keeps its commit record.
func TestBusyByAnyCall(t *testing.T) {
	r := New(Config{SweepEvery: -1}, newLog())
	defer r.Stop()
	r.mu.Lock()
	defer r.mu.Unlock()
	k := plan.Key{TX: idOf(1), Branch: 1}
	for v := plan.Commit; v <= plan.ResolveOutcome; v++ {
		r.attempts[item{k, v}] = &branchAttempts{}
		if !r.busyLocked(k) || r.busyLocked(plan.Key{TX: idOf(1), Branch: 2}) || r.busyLocked(plan.Key{TX: idOf(2), Branch: 1}) {
			t.Errorf("%v: busy %v, another branch %v, another transaction %v", v, r.busyLocked(k), r.busyLocked(plan.Key{TX: idOf(1), Branch: 2}), r.busyLocked(plan.Key{TX: idOf(2), Branch: 1}))
		}
		delete(r.attempts, item{k, v})
	}
	if r.busyLocked(k) {
		t.Error("busy with nothing")
	}
	r.reporter.batches[k.TX] = &reportBatch{}
	if !r.busyLocked(k) {
		t.Error("not busy with a report to be sent")
	}
	delete(r.reporter.batches, k.TX)
}

// TestHistoryOfWhatIsUnderWay: attempts of every action are shown while the branch is pending.
func TestHistoryOfWhatIsUnderWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := newLog()
		for _, name := range []string{"a", "b", "c"} {
			newParticipant(log, name).setFault(always(fail))
		}
		r := begin(t, Config{}, log)
		log.put(idOf(1), txn.RollingBack, "a")
		log.put(idOf(2), txn.Committing, "b")
		log.delegate(idOf(3), 0, "c")
		for n, want := range []string{"rollback", "commit", "resolve outcome"} {
			id := idOf(n + 1)
			r.Add(id)
			sleep(t.Context(), time.Second)
			if got := results(r.History(id)[1]); len(got) == 0 || got[0] != want+": failed: connection refused" {
				t.Errorf("%s: %q", want, got)
			}
		}
		for n := range 3 {
			log.ack(idOf(n + 1))
		}
	})
}

// TestLanesThatAreDropped: those of participants that are gone and have nothing to do.
func TestLanesThatAreDropped(t *testing.T) {
	r := New(Config{SweepEvery: -1}, newLog())
	defer r.Stop()
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, name := range []string{"registered", "registered and swept", "at work", "at work and swept", "parked", "swept", "leaving", "dirty", "idle"} {
		r.laneLocked(name)
	}
	r.lanes.byName["at work"].running, r.lanes.byName["at work and swept"].running, r.lanes.byName["parked"].backingOff = 1, 1, 1
	for _, name := range []string{"registered and swept", "at work and swept", "swept"} {
		r.lanes.byName[name].sweeping <- struct{}{}
	}
	r.lanes.byName["leaving"].workerPool.closing, r.lanes.byName["dirty"].dirty = true, true
	r.dropLanesLocked(map[string]bool{"registered": true, "registered and swept": true})
	if _, there := r.lanes.byName["idle"]; there || len(r.lanes.byName) != 8 {
		t.Errorf("%d lanes are left, the idle one among them: %v", len(r.lanes.byName), there)
	}
	for name, l := range r.lanes.byName {
		l.running, l.backingOff = 0, 0
		if len(l.sweeping) > 0 {
			<-l.sweeping
		}
		l.workerPool.closing, l.dirty = false, false
		delete(r.lanes.byName, name)
	}
}

// TestRetrySendsAReportAtOnce: an operator that requests a retry does not wait for the backoff of
// the log either.
func TestRetrySendsAReportAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := newLog()
		newParticipant(log, "a")
		r := begin(t, Config{BackoffBase: time.Hour, BackoffMax: 2 * time.Hour, BreakerThreshold: 100, Rand: func() float64 { return 0.99 }}, log)
		log.failReports(func(_ txn.ID, call int) error {
			if call <= 1 {
				return errNoLeader
			}
			return nil
		})
		log.put(idOf(1), txn.Committing, "a")
		r.Add(idOf(1))
		sleep(t.Context(), time.Second)
		if log.told() != 1 {
			t.Fatalf("%d reports in the first second", log.told())
		}
		r.Retry(idOf(1))
		sleep(t.Context(), 100*time.Millisecond)
		if log.told() != 2 {
			t.Errorf("%d reports 100ms after the retry", log.told())
		}
		within(t, time.Second, "all", log.allDone)
	})
}

// TestAProbeComesInTime: an open breaker lets a call through when its time has come, also
// when nothing else is scheduled.
func TestAProbeComesInTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := newLog()
		res := newParticipant(log, "a")
		res.setFault(func(v recordedCall) fault {
			if v.branch.TX == idOf(1) {
				return fail
			}
			return none
		})
		r := begin(t, Config{NewOptimizer: fixed(1), BreakerThreshold: 1, BackoffBase: time.Hour, BackoffMax: 2 * time.Hour, BreakerMax: 3 * time.Second}, log)
		for n := range 3 {
			log.put(idOf(n+1), txn.Committing, "a")
		}
		log.with(func() { log.left-- }) // the first is never done
		r.Add(idOf(1), idOf(2), idOf(3))
		within(t, 4*time.Second, "those that wait behind a failure", log.allDone)
		log.ack(idOf(1))
	})
}
