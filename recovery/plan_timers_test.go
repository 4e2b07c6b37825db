package recovery

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/txmgr/txmgr/recovery/plan"
	"github.com/txmgr/txmgr/txn"
	"pgregory.net/rapid"
)

// TestWaitingDoesNotWake: the loop sleeps while branches back off,
// and wakes up once for all whose time comes within one timerResolution.
func TestWaitingDoesNotWake(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := begin(t, Config{}, finished{})
		synctest.Wait()
		r.mu.Lock()
		l := openLane(r)
		start := r.now()
		for n := range 3000 {
			it := item{plan.Key{TX: idOf(n + 1), Branch: 1}, plan.Commit}
			w := &branchAttempts{lane: l}
			r.pending.transactions[it.TX], r.attempts[it] = txProgress{outstanding: 1, state: txn.Committing}, w
			// Three groups, each within a thousandth of a second.
			r.backOffLocked(it, w, start+time.Duration(1+n%3)*time.Minute-time.Duration(n)*100)
		}
		looks := r.wakeups.iterations
		r.mu.Unlock()
		for crowd := range 3 {
			sleep(t.Context(), time.Minute)
			synctest.Wait()
			r.mu.Lock()
			if want := 2000 - 1000*crowd; l.backingOff != want || r.wakeups.timers.len() != want {
				t.Errorf("after %v: %d wait, %d timers; want %d", r.now()-start, l.backingOff, r.wakeups.timers.len(), want)
			}
			r.mu.Unlock()
		}
		r.mu.Lock()
		defer r.mu.Unlock()
		// One iteration when the first were backed off, one for each group, and some that move
		// a bucket of many to a lower level.
		if n := r.wakeups.iterations - looks; n < 4 || n > 40 {
			t.Errorf("the loop looked %d times", n)
		}
	})
}

// TestRetryLeavesNoTimer: a branch that is tried at once waits no more, and leaves nothing
// on the wheel.
func TestRetryLeavesNoTimer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := newLog()
		res := newParticipant(log, "a")
		res.setFault(always(fail))
		r := begin(t, Config{BackoffBase: time.Hour, BackoffMax: time.Hour, BreakerThreshold: 1000}, log)
		log.put(idOf(1), txn.Committing, "a")
		r.Add(idOf(1))
		for n := range 50 {
			sleep(t.Context(), time.Millisecond)
			r.mu.Lock()
			if got := r.wakeups.timers.len(); got != 1 {
				t.Errorf("%d timers after %d attempts, want 1", got, n+1)
			}
			r.mu.Unlock()
			r.Retry(idOf(1))
		}
		if calls := len(res.made()); calls < 50 {
			t.Errorf("%d calls", calls)
		}
		res.setFault(nil)
		r.Retry(idOf(1))
		within(t, time.Minute, "committed", log.allDone)
		synctest.Wait()
		wantEmpty(t, r)
		r.mu.Lock()
		defer r.mu.Unlock()
		if n := r.wakeups.timers.len(); n != 0 {
			t.Errorf("%d timers are left", n)
		}
	})
}

// TestManyDueAtOnce: timers that are due at once are fired in batches, all of them.
func TestManyDueAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := begin(t, Config{}, finished{})
		r.mu.Lock()
		l := openLane(r)
		for n := range 3 * fireBatch {
			it := item{plan.Key{TX: idOf(n + 1), Branch: 1}, plan.Commit}
			w := &branchAttempts{lane: l}
			r.pending.transactions[it.TX], r.attempts[it] = txProgress{outstanding: 1, state: txn.Committing}, w
			r.backOffLocked(it, w, r.now()+time.Second)
		}
		r.mu.Unlock()
		sleep(t.Context(), time.Second+timerResolution)
		synctest.Wait()
		r.mu.Lock()
		defer r.mu.Unlock()
		if l.backingOff != 0 || l.queued() != 3*fireBatch {
			t.Errorf("%d wait, %d are in the lane", l.backingOff, l.queued())
		}
	})
}

// TestTimers checks order, completeness, cancelling, and both bounds of the wait,
// against a list.
func TestTimers(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		q, now := newTimers(), time.Duration(0)
		type waiting struct {
			*timer
			at time.Duration
		}
		var model []waiting
		for range rapid.IntRange(1, 200).Draw(t, "steps") {
			switch rapid.SampledFrom([]string{"set", "set", "cancel", "due"}).Draw(t, "do") {
			case "set":
				w := waiting{new(timer), now + time.Duration(rapid.Int64Range(-1e6, 1e10).Draw(t, "ns"))}
				q.set(w.timer, w.at)
				model = append(model, w)
			case "cancel":
				if n := len(model); n > 0 {
					i := rapid.IntRange(0, n-1).Draw(t, "which")
					q.cancel(model[i].timer)
					model = slices.Delete(model, i, i+1)
				}
			case "due":
				now += time.Duration(rapid.Int64Range(0, 3e9).Draw(t, "ns"))
				last := time.Duration(0)
				for w := q.due(now); w != nil; w = q.due(now) {
					i := slices.IndexFunc(model, func(o waiting) bool { return o.timer == w })
					switch {
					case i < 0:
						t.Fatalf("due, and does not wait: %v", timerDue(w))
					case model[i].at > now, timerDue(w) < last:
						t.Fatalf("now %v: got %v after %v, which waits for %v", now, timerDue(w), last, model[i].at)
					}
					last, model = timerDue(w), slices.Delete(model, i, i+1)
				}
				for _, w := range model {
					if w.at+timerResolution <= now {
						t.Fatalf("now %v: %v was left", now, w.at)
					}
				}
			}
			if q.len() != len(model) {
				t.Fatalf("%d wait, want %d", q.len(), len(model))
			}
			if next, ok := q.next(); ok != (len(model) > 0) || slices.ContainsFunc(model, func(w waiting) bool { return ok && max(w.at, now)+timerResolution <= next }) {
				t.Fatalf("next at %v, %v; waiting: %v", next, ok, model)
			}
		}
	})
}
