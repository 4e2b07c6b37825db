package recovery

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/txmgr/txmgr/txn"
)

// TestLatencyIncludesWaiting: a call's latency begins when it could have been made. Of 100
// calls of 20 ms, one after the other, the mean is a second, and the last takes two.
func TestLatencyIncludesWaiting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const n, took = 100, 20 * time.Millisecond
		_, r := stormOf(n, 32, took).burst(t, Config{NewOptimizer: fixed(1)}, time.Minute)
		sleep(t.Context(), 2*time.Second) // until the window has ended
		h := r.Health("one")
		if want := took * (n + 1) / 2; h.Mean != want || h.P99 < 95*n*took/100 || h.P99 > n*took {
			t.Errorf("mean latency %v, not %v; 99th percentile %v, not nearly %v", h.Mean, want, h.P99, n*took)
		}
	})
}

// TestLatencyLeavesOtherWaitsOut: the time for which a branch waits for its next attempt, for a
// participant that is down, or for a log that accepts no results, is no latency: no worker could
// have helped. It is a minute, and the 200 calls that follow, of a millisecond each, take 50 with
// four workers.
func TestLatencyLeavesOtherWaitsOut(t *testing.T) {
	for _, c := range []struct {
		name string
		n    int // with five the breaker opens
		down func(log *fakeLog, res *fakeParticipant) (up func())
	}{
		{"next try", 1, func(_ *fakeLog, res *fakeParticipant) func() {
			res.setFault(always(fail))
			return func() { res.setFault(nil) }
		}},
		{"participant", 200, func(_ *fakeLog, res *fakeParticipant) func() {
			res.setFault(always(fail))
			return func() { res.setFault(nil) }
		}},
		{"log", 200, func(log *fakeLog, _ *fakeParticipant) func() {
			log.failReports(func(txn.ID, int) error { return txn.ErrUnavailable })
			return func() { log.failReports(nil) }
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				log := newLog()
				up := c.down(log, newParticipant(log, "a"))
				r := begin(t, Config{NewOptimizer: fixed(4), BackoffBase: time.Second, BackoffMax: time.Minute}, log)
				for n := range c.n {
					log.put(idOf(n+1), txn.Committing, "a")
					r.Add(idOf(n + 1))
				}
				sleep(t.Context(), time.Minute)
				up()
				for h := r.Health("a"); h.Queued+h.Waiting+h.Running > 0; h = r.Health("a") {
					sleep(t.Context(), 100*time.Millisecond)
				}
				sleep(t.Context(), 2*time.Second) // until the window has ended
				if h := r.Health("a"); h.Throughput == 0 || h.P99 > 100*time.Millisecond {
					t.Errorf("99th percentile %v, at %.1f calls in a second", h.P99, h.Throughput)
				}
			})
		})
	}
}
