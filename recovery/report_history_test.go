package recovery

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/txmgr/txmgr/recovery/history"
	"github.com/txmgr/txmgr/recovery/plan"
	"github.com/txmgr/txmgr/txn"
)

// results returns the attempts at a branch in short.
func results(h history.History) []string {
	var s []string
	for _, a := range h.Attempts {
		mark := ""
		if a.Failed {
			mark = "failed: "
		}
		s = append(s, a.Call+": "+mark+a.Result)
	}
	return s
}

// TestHistory: every attempt at a branch can be read while it is pending and
// afterwards, over all its actions, if one of them failed.
func TestHistory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := newLog()
		a, b := newParticipant(log, "a"), newParticipant(log, "b")
		a.latency = 20 * time.Millisecond
		a.setFault(func(v recordedCall) fault {
			switch {
			case v.verb == plan.Prepare && v.n == 1, v.verb == plan.Commit && v.n == 2:
				return fail
			case v.verb == plan.Commit && v.n == 1:
				return hang
			}
			return none
		})
		r := begin(t, Config{}, log)
		id, start := idOf(1), time.Now()
		log.put(id, txn.Preparing, "a", "b").deadline = start.Add(time.Minute)
		r.Add(id)
		sleep(t.Context(), 5*time.Second)
		want := []string{"prepare: failed: connection refused", "prepare: prepared"}
		if diff := cmp.Diff(want, results(r.History(id)[1])); diff != "" {
			t.Errorf("during the first commit, -want +got:\n%s", diff)
		}
		sleep(t.Context(), 6*time.Second)
		want = append(want, "commit: failed: no answer within 10s: commit: context deadline exceeded")
		if diff := cmp.Diff(want, results(r.History(id)[1])[:3]); diff != "" {
			t.Errorf("after the first commit, -want +got:\n%s", diff)
		}
		within(t, time.Minute, "commit", log.allDone)
		synctest.Wait()
		want = append(want, "commit: failed: connection refused", "commit: committed (model)")
		h := r.History(id)
		if diff := cmp.Diff(want, results(h[1])); diff != "" || len(h) != 1 || h[1].Earlier != 0 {
			t.Errorf("finished: %d branches, want the one that failed; -want +got:\n%s", len(h), diff)
		}
		for i, v := range a.made() {
			if x := h[1].Attempts[i]; !x.At.Equal(v.at) {
				t.Errorf("attempt %d at %v, was at %v", i, x.At, v.at)
			}
		}
		for i, took := range []time.Duration{0, a.latency, 10 * time.Second, 0, a.latency} {
			if got := time.Duration(h[1].Attempts[i].Took); got != took {
				t.Errorf("attempt %d took %v, want %v", i, got, took)
			}
		}
		if n := b.preparedCount(); n != 0 {
			t.Errorf("%d held at b", n)
		}
		wantEmpty(t, r)
	})
}

// TestHistoryTells checks which ends are kept.
func TestHistoryTells(t *testing.T) {
	for _, c := range []struct {
		name  string
		state txn.State
		fault fault
		times int
		want  []string
	}{
		{"nothing of a success", txn.Committing, none, 0, nil},
		{"a heuristic outcome", txn.Committing, forget, 1, []string{"commit: heuristic: unknown (model)"}},
		{"a heuristic outcome of a settlement", txn.Preparing, forget, 1, []string{"resolve outcome: heuristic: unknown (model)"}},
		{"a settlement that failed once", txn.Preparing, fail, 1, []string{
			"resolve outcome: failed: connection refused", "resolve outcome: rolled-back (model)",
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				log := newLog()
				res := newParticipant(log, "a")
				res.setFault(func(v recordedCall) fault {
					if v.n <= c.times {
						return c.fault
					}
					return none
				})
				r := begin(t, Config{}, log)
				if c.state == txn.Preparing {
					log.delegate(idOf(1), 0, "a")
				} else {
					log.put(idOf(1), c.state, "a")
				}
				r.Add(idOf(1))
				within(t, time.Minute, "end", log.allDone)
				synctest.Wait()
				if diff := cmp.Diff(c.want, results(r.History(idOf(1))[1])); diff != "" {
					t.Errorf("-want +got:\n%s", diff)
				}
			})
		})
	}
}

// TestHistoryOfGivenUpCall: a call that was cancelled because of the decision is recorded,
// and not as a failure.
func TestHistoryOfGivenUpCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := newLog()
		newParticipant(log, "a").setFault(func(v recordedCall) fault {
			if v.verb == plan.Prepare {
				return hang
			}
			return none
		})
		r := begin(t, Config{}, log)
		id := idOf(1)
		log.put(id, txn.Preparing, "a").deadline = time.Now().Add(time.Minute)
		r.Add(id)
		sleep(t.Context(), time.Second)
		log.decide(id, txn.RollingBack, txn.CauseOperator)
		within(t, time.Second, "rollback", log.allDone)
		synctest.Wait()
		as := r.History(id)[1].Attempts
		if len(as) != 1 || as[0].Failed || as[0].Result != "given up, because it was decided meanwhile" {
			t.Errorf("%+v", as)
		}
	})
}

// TestHistoryIsBounded: a branch keeps 16 attempts, of finished transactions the
// newest 1,024 are kept, and texts are redacted.
func TestHistoryIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := newLog()
		res := newParticipant(log, "a")
		stubborn := idOf(1)
		res.setFault(func(v recordedCall) fault {
			if v.n <= 1 || v.branch.TX == stubborn && v.n <= 40 {
				return fail
			}
			return none
		})
		r := begin(t, Config{BackoffMax: time.Second, BreakerThreshold: 1 << 30}, log)
		const n = 1500
		for k := range n {
			log.put(idOf(k+1), txn.Committing, "a")
			r.Add(idOf(k + 1))
		}
		within(t, 5*time.Minute, "all", log.allDone)
		synctest.Wait()
		if h := r.History(stubborn)[1]; len(h.Attempts) != 16 || h.Earlier != 25 || h.Attempts[15].Failed || !h.Attempts[14].Failed {
			t.Errorf("%d attempts and %d earlier ones; want 16 of 41: %q", len(h.Attempts), h.Earlier, results(h))
		}
		known := 0
		for k := range n {
			known += len(r.History(idOf(k + 1)))
		}
		if known != 1024 {
			t.Errorf("%d transactions are remembered, want 1,024", known)
		}
		r.mu.Lock()
		defer r.mu.Unlock()
		if live, finished := r.history.Records(); live != 0 || finished != 1023*2+16 {
			t.Errorf("counts %d live and %d kept records", live, finished)
		}
	})
}

// TestSweepHistory: failed attempts of a sweep are recorded as well.
func TestSweepHistory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := newLog()
		res := newParticipant(log, "a")
		x := log.put(idOf(1), txn.RolledBack, "a")
		x.branches[0].finished = true
		res.setFault(always(fail))
		r := begin(t, Config{}, log)
		for range 2 {
			if _, err := r.Sweep(t.Context(), "a", true); err != nil {
				t.Fatal(err)
			}
		}
		want := []string{"rollback: failed: connection refused", "rollback: failed: connection refused"}
		if diff := cmp.Diff(want, results(r.History(idOf(1))[1])); diff != "" {
			t.Errorf("-want +got:\n%s", diff)
		}
		if h := r.Health("a"); h.Healthy || h.Failures != 2 {
			t.Errorf("%+v", h)
		}
	})
}
