package recovery

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/txmgr/txmgr/txn"
)

// TestHealthOfOneFailure: one failed call shows, with how many there were; an answer
// ends it, and so does a sweep when nothing is left to be done there.
func TestHealthOfOneFailure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := newLog()
		res := newParticipant(log, "a")
		res.setFault(always(fail))
		r := begin(t, Config{BackoffBase: time.Hour, BackoffMax: time.Hour, BreakerThreshold: 5}, log)
		for n := range 2 {
			log.put(idOf(n+1), txn.Committing, "a")
			r.Add(idOf(n + 1))
			sleep(t.Context(), time.Millisecond)
			if h := r.Health("a"); h.Healthy || h.Failures != n+1 || h.LastError != "commit: connection refused" || h.NextTry != 0 {
				t.Errorf("after %d failures: %+v", n+1, h)
			}
		}
		if _, err := r.Sweep(t.Context(), "a", false); err != nil {
			t.Fatal(err)
		}
		if h := r.Health("a"); h.Healthy || h.Failures != 2 {
			t.Errorf("a sweep is taken for an answer, with work left: %+v", h)
		}
		res.setFault(nil)
		r.Retry(idOf(1))
		sleep(t.Context(), time.Second)
		if h := r.Health("a"); !h.Healthy || h.Failures != 0 || h.LastError != "" {
			t.Errorf("after an answer: %+v", h)
		}
		res.setFault(always(fail))
		r.Retry(idOf(2))
		sleep(t.Context(), time.Second)
		res.mu.Lock()
		delete(res.prepared, txn.XID(cluster, idOf(2), 1)) // the client did it
		res.mu.Unlock()
		log.ack(idOf(2))
		sleep(t.Context(), 2*time.Hour)
		if h := r.Health("a"); h.Healthy {
			t.Errorf("healthy without an answer: %+v", h)
		}
		if _, err := r.Sweep(t.Context(), "a", false); err != nil {
			t.Fatal(err)
		}
		if h := r.Health("a"); !h.Healthy || h.Failures != 0 {
			t.Errorf("with nothing left that fails: %+v", h)
		}
	})
}
