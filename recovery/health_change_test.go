package recovery

import (
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/txmgr/txmgr/txn"
)

// TestTurnsAreTold: one change when a participant goes down and one when it is back, however many
// calls fail in between, and none for a single failure.
func TestTurnsAreTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := newLog()
		res := newParticipant(log, "a")
		var mu sync.Mutex
		var told []HealthChange
		r := begin(t, Config{BackoffBase: time.Millisecond, BackoffMax: time.Millisecond, BreakerThreshold: 5, OnHealthChange: func(x HealthChange) {
			mu.Lock()
			defer mu.Unlock()
			told = append(told, x)
		}}, log)
		heard := func() []HealthChange {
			synctest.Wait()
			mu.Lock()
			defer mu.Unlock()
			return told
		}
		failures := 0
		res.setFault(func(recordedCall) fault {
			if failures++; failures == 1 {
				return fail
			}
			return none
		})
		log.put(idOf(1), txn.Committing, "a")
		r.Add(idOf(1))
		sleep(t.Context(), time.Second)
		if x := heard(); len(x) != 0 || failures < 2 {
			t.Errorf("after one failure of %d calls: %+v", failures, x)
		}
		res.setFault(always(fail))
		for n := range 20 {
			log.put(idOf(n+2), txn.Committing, "a")
			r.Add(idOf(n + 2))
		}
		sleep(t.Context(), 10*time.Second)
		if x := heard(); len(x) != 1 || x[0] != (HealthChange{Participant: "a", Error: "commit: connection refused"}) {
			t.Errorf("down: %+v", x)
		}
		res.setFault(nil)
		sleep(t.Context(), time.Minute)
		x := heard()
		if len(x) != 2 || !x[1].Up || x[1].Participant != "a" || x[1].Error != "" || x[1].Down < 9*time.Second || x[1].Down > 30*time.Second {
			t.Errorf("up: %+v", x)
		}
	})
}
