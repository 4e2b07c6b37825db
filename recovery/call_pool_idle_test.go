package recovery

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/txmgr/txmgr/txn"
)

// TestALongCallKeepsThePool: a lane whose only call takes longer than the idle timeout has a
// pool all the while, and begins work that arrives meanwhile at once.
func TestALongCallKeepsThePool(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := newLog()
		res := newParticipant(log, "a")
		res.latency = 4 * poolIdleTimeout
		r := begin(t, Config{CallTimeout: 10 * poolIdleTimeout}, log)
		log.put(idOf(1), txn.Committing, "a")
		r.Add(idOf(1))
		sleep(t.Context(), 3*poolIdleTimeout)
		log.put(idOf(2), txn.Committing, "a")
		r.Add(idOf(2))
		sleep(t.Context(), time.Second)
		res.mu.Lock()
		defer res.mu.Unlock()
		if res.most != 2 {
			t.Errorf("%d calls at once", res.most)
		}
	})
}

// TestAnotherPoolDelaysNoRest: a lane without work closes its pool when its time has come, although
// another lane gets a pool shortly before.
func TestAnotherPoolDelaysNoRest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := newLog()
		newParticipant(log, "a")
		newParticipant(log, "b")
		r := begin(t, Config{}, log)
		pool := func(name string) bool {
			r.mu.Lock()
			defer r.mu.Unlock()
			l := r.lanes.byName[name]
			return l != nil && l.workerPool.pool != nil
		}
		log.put(idOf(1), txn.Committing, "a")
		r.Add(idOf(1))
		sleep(t.Context(), poolIdleTimeout-time.Second)
		log.put(idOf(2), txn.Committing, "b")
		r.Add(idOf(2))
		sleep(t.Context(), 500*time.Millisecond)
		if !pool("a") || !pool("b") {
			t.Fatalf("pools before the rest: %v, %v", pool("a"), pool("b"))
		}
		sleep(t.Context(), poolIdleTimeout/2+time.Second) // the next check is at most so much later
		if pool("a") || !pool("b") {
			t.Errorf("pools after the rest of one lane: %v, %v; want false, true", pool("a"), pool("b"))
		}
	})
}

// TestOneOptimizerOnePool: while a pool that has the optimizer is being closed there is no other.
func TestOneOptimizerOnePool(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := newLog()
		newParticipant(log, "a")
		r := begin(t, Config{}, log)
		log.put(idOf(1), txn.Committing, "a")
		r.Add(idOf(1))
		within(t, time.Second, "commit", log.allDone)
		synctest.Wait()
		r.mu.Lock()
		l := r.lanes.byName["a"]
		r.closePoolLocked(l)
		if r.startPoolLocked(l) || l.workerPool.pool != nil {
			t.Error("two pools share an optimizer")
		}
		r.mu.Unlock()
		synctest.Wait()
		r.mu.Lock()
		defer r.mu.Unlock()
		if !r.startPoolLocked(l) {
			t.Error("no pool after the last one has gone")
		}
	})
}

// TestAnOpenBreakerOffersOneCall, its probe, however many branches wait.
func TestAnOpenBreakerOffersOneCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := newLog()
		newParticipant(log, "a").setFault(always(fail))
		r := begin(t, Config{}, log)
		for n := range 1000 {
			log.put(idOf(n+1), txn.Committing, "a")
			r.Add(idOf(n + 1))
		}
		sleep(t.Context(), 10*time.Second)
		r.mu.Lock()
		defer r.mu.Unlock()
		l := r.lanes.byName["a"]
		if n := r.readyLocked(l, l.health.br.NextProbe()); l.health.br.Closed() || l.queued() < 100 || n != 1 {
			t.Errorf("breaker closed: %v; %d of %d queued calls are offered", l.health.br.Closed(), n, l.queued())
		}
	})
}

// TestSilenceTeachesNoMore: the pool of a participant that stops answering in the middle of a climb
// returns to as many calls as were proven, and learns no further.
func TestSilenceTeachesNoMore(t *testing.T) {
	for _, timeout := range []time.Duration{10 * time.Second, 30 * time.Second, time.Minute} {
		t.Run(timeout.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				log := newLog()
				res := newParticipant(log, "a")
				res.latency = 20 * time.Millisecond
				r := begin(t, Config{CallTimeout: timeout}, log)
				for n := range 100_000 {
					log.put(idOf(n+1), txn.Committing, "a")
					r.Add(idOf(n + 1))
				}
				sleep(t.Context(), 3*time.Second)
				res.setFault(always(hang))
				before := len(r.Decisions("a"))
				sleep(t.Context(), 5*time.Minute)
				if all := r.Decisions("a"); len(all) > before+1 || len(all) == before+1 && all[before].To >= all[before].From {
					t.Errorf("silence has taught: %+v", all[before:])
				}
			})
		})
	}
}
