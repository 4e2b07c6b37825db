package recovery

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/txmgr/txmgr/txn"
)

// TestMaxCalls: there are no more concurrent calls than Config.MaxCalls, except one at
// each participant, and the lanes that need more have as many as each other.
func TestMaxCalls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const lanes, each, most = 5, 400, 12
		log := newLog()
		var parts []*fakeParticipant
		for i := range lanes {
			res := newParticipant(log, fmt.Sprintf("p%d", i))
			res.latency = 10 * time.Millisecond
			parts = append(parts, res)
		}
		r := begin(t, Config{NewOptimizer: fixed(16), MaxCalls: most}, log)
		for i := range lanes { // the first one has all calls for a while
			for k := range each {
				log.put(idOf(i*each+k+1), txn.Committing, fmt.Sprintf("p%d", i))
				r.Add(idOf(i*each + k + 1))
			}
			sleep(t.Context(), time.Millisecond)
		}
		ended := make([]time.Duration, lanes)
		start, full := time.Now(), 0
		for step := 0; ; step++ {
			synctest.Wait()
			left, busy := false, 0
			for i, res := range parts {
				busy += res.busy()
				if res.preparedCount() > 0 {
					left = true
				} else if ended[i] == 0 {
					ended[i] = time.Since(start)
				}
			}
			if busy > most+lanes-1 {
				t.Fatalf("%d calls at once, at most %d and one for each of the others are allowed", busy, most)
			}
			if busy >= most {
				full++
			}
			if !left {
				if full < step*9/10 {
					t.Errorf("all calls were in use at %d of %d moments only", full, step)
				}
				break
			}
			if step > 10_000 {
				t.Fatalf("stuck: ended %v", ended)
			}
			sleep(t.Context(), time.Millisecond)
		}
		for i, d := range ended {
			if d < ended[lanes-1]*7/10 {
				t.Errorf("participant %d is done after %v, the last after %v", i, d, ended[lanes-1])
			}
		}
		synctest.Wait()
		wantEmpty(t, r)
	})
}

// TestHungOnesTakeAllCalls: when hung participants hold Config.MaxCalls, every other
// participant still has one call.
func TestHungOnesTakeAllCalls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := newLog()
		good, hung := newParticipant(log, "good"), []string{"h1", "h2", "h3"}
		for _, name := range hung {
			newParticipant(log, name).setFault(always(hang))
		}
		r := begin(t, Config{MaxCalls: 20}, log)
		for i, name := range hung {
			for k := range 100 {
				id := idOf(1000*(i+1) + k)
				log.put(id, txn.RollingBack, name)
				log.with(func() { log.left-- })
				r.Add(id)
			}
		}
		sleep(t.Context(), time.Second)
		for k := range 100 {
			log.put(idOf(k+1), txn.RollingBack, "good")
			r.Add(idOf(k + 1))
		}
		within(t, time.Second, "the good one's rollbacks", log.allDone)
		if good.most != 1 {
			t.Errorf("%d calls at once beside those that hang", good.most)
		}
	})
}
