package recovery

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/txmgr/txmgr/recovery/plan"
	"github.com/txmgr/txmgr/txn"
)

func TestDrivesToTheDecision(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := newLog()
		a, b := newParticipant(log, "a"), newParticipant(log, "b")
		r := begin(t, Config{}, log)
		for n := range 100 {
			state := txn.Committing
			if n%2 == 0 {
				state = txn.RollingBack
			}
			log.put(idOf(n+1), state, "a", "b")
			r.Add(idOf(n + 1))
		}
		within(t, time.Minute, "all", log.allDone)
		synctest.Wait()
		for _, res := range []*fakeParticipant{a, b} {
			calls := res.made()
			if len(calls) != 100 || res.preparedCount() != 0 {
				t.Errorf("%d calls for 100 branches, %d still prepared", len(calls), res.preparedCount())
			}
			for _, c := range calls {
				commits := log.state(c.branch.TX) == txn.Committed
				if commits != (c.verb == plan.Commit) {
					t.Errorf("%v of %v, which is %v", c.verb, c.branch.TX, log.state(c.branch.TX))
				}
			}
		}
		wantEmpty(t, r)
	})
}

// finishTime drives 10,000 rollbacks at one participant and returns how long it
// took, beside so many others that hang with as many rollbacks each.
func finishTime(t *testing.T, hung ...string) (took time.Duration) {
	synctest.Test(t, func(t *testing.T) {
		const n = 10_000
		log := newLog()
		good := newParticipant(log, "good")
		good.latency = 5 * time.Millisecond
		r := begin(t, Config{}, log)
		for i, name := range hung {
			newParticipant(log, name).setFault(always(hang))
			for k := range n {
				id := idOf((i+1)*n + k + 1)
				log.put(id, txn.RollingBack, name)
				log.with(func() { log.left-- })
				r.Add(id)
			}
		}
		synctest.Wait() // the hung ones are first to get workers
		start := time.Now()
		for k := range n {
			log.put(idOf(k+1), txn.RollingBack, "good")
			r.Add(idOf(k + 1))
		}
		within(t, time.Hour, "the good one's rollbacks", log.allDone)
		took = time.Since(start)
		for _, name := range hung {
			res := log.parts[name].(*fakeParticipant)
			if len(res.made()) == 0 || res.most > r.cfg.Start {
				t.Errorf("%s: %d calls, %d at once", name, len(res.made()), res.most)
			}
		}
	})
	return took
}

func TestHungParticipantDelaysOnlyItself(t *testing.T) {
	alone := finishTime(t)
	for _, hung := range [][]string{{"h1"}, {"h1", "h2", "h3"}} {
		beside := finishTime(t, hung...)
		t.Logf("10,000 rollbacks: alone %v, beside %d hung participants %v", alone, len(hung), beside)
		if beside > alone*12/10 {
			t.Errorf("beside %d hung participants %v, alone %v", len(hung), beside, alone)
		}
	}
}

// TestFaults makes every branch meet a fault on its first calls and requires that
// it ends as decided nevertheless, with the number of calls that this takes.
func TestFaults(t *testing.T) {
	for _, c := range []struct {
		name  string
		fault fault
		times int
	}{
		{"fails", fail, 3},
		{"refuses", refuse, 3},
		{"hangs", hang, 1},
		{"answers late", late, 1},
		{"loses the answer", lose, 2},
		{"panics", crash, 1},
		{"answers nonsense", lie, 1},
	} {
		for _, state := range []txn.State{txn.Committing, txn.RollingBack} {
			t.Run(c.name+" while "+state.String(), func(t *testing.T) {
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
					for n := range 20 {
						log.put(idOf(n+1), state, "a")
						r.Add(idOf(n + 1))
					}
					within(t, 5*time.Minute, "all", log.allDone)
					synctest.Wait()
					if calls := res.made(); len(calls) != 20*(c.times+1) {
						t.Errorf("%d calls, want %d", len(calls), 20*(c.times+1))
					}
					for _, v := range res.made() {
						want := v.n - 1
						if c.fault == refuse {
							want = 0 // there was no answer to be lost
						}
						if v.branch.Attempts != want {
							t.Errorf("call %d was told of %d attempts, want %d", v.n, v.branch.Attempts, want)
						}
					}
					for n := range 20 {
						if h := log.hazards(idOf(n + 1)); h[0] != 0 {
							t.Errorf("false heuristic %v", h)
						}
					}
					wantEmpty(t, r)
				})
			})
		}
	}
}

func TestHazards(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := newLog()
		a, b := newParticipant(log, "a"), newParticipant(log, "b")
		r := begin(t, Config{}, log)
		forgot, byHand, wrong := idOf(1), idOf(2), idOf(3)
		log.put(forgot, txn.Committing, "a", "b")
		b.setFault(func(v recordedCall) fault {
			if v.branch.TX == forgot {
				return forget
			}
			return none
		})
		log.put(byHand, txn.Committing, "a")
		a.ended[txn.XID(cluster, byHand, 1)] = 2 // an operator ran ROLLBACK PREPARED
		log.put(wrong, txn.RollingBack, "a")
		a.ended[txn.XID(cluster, wrong, 1)] = 1 // an operator ran COMMIT PREPARED
		for _, id := range []txn.ID{byHand, wrong} {
			delete(a.prepared, txn.XID(cluster, id, 1))
		}
		r.Add(forgot, byHand, wrong)
		within(t, time.Minute, "all", log.allDone)
		for id, want := range map[txn.ID][]txn.Heuristic{
			forgot: {0, txn.HeuristicHazard}, byHand: {txn.HeuristicRollback}, wrong: {txn.HeuristicCommit},
		} {
			if got := log.hazards(id); !slices.Equal(got, want) {
				t.Errorf("heuristic outcomes %v, want %v", got, want)
			}
		}
	})
}

// TestBreakerSparesTheDead counts the calls that a participant gets that is down, and
// measures the time until its return is noticed.
func TestBreakerSparesTheDead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := newLog()
		res := newParticipant(log, "a")
		res.setFault(always(fail))
		r := begin(t, Config{}, log)
		for n := range 1000 {
			log.put(idOf(n+1), txn.RollingBack, "a")
			r.Add(idOf(n + 1))
		}
		synctest.Wait()
		if !sleep(t.Context(), 5*time.Minute) {
			t.Fatal("no sleep")
		}
		calls := len(res.made())
		// 13 to open it (5, and those under way), then a probe every 2.5s to 5s.
		if calls < 60 || calls > 140 {
			t.Errorf("%d calls in five minutes", calls)
		}
		h := r.Health("a")
		if h.Healthy || h.NextTry <= 0 || h.NextTry > 5*time.Second || h.Queued+h.Waiting != 1000 ||
			h.LastError != "rollback: connection refused" {
			t.Errorf("health: %+v", h)
		}
		res.setFault(nil)
		healed := time.Now()
		within(t, time.Minute, "all", log.allDone)
		// The next probe, the backoff of those that were tried, the work itself.
		if took := time.Since(healed); took > 36*time.Second {
			t.Errorf("back after %v", took)
		}
		synctest.Wait()
		if h := r.Health("a"); !h.Healthy || h.LastError != "" || h.Queued+h.Waiting+h.Running != 0 {
			t.Errorf("health: %+v", h)
		}
		wantEmpty(t, r)
	})
}

// TestRetriesSpread makes many branches fail at one instant and checks when they are
// retried.
func TestRetriesSpread(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := newLog()
		res := newParticipant(log, "a")
		res.latency = 0
		res.setFault(func(v recordedCall) fault {
			if v.n == 1 {
				return fail
			}
			return none
		})
		r := begin(t, Config{Start: 200, BreakerThreshold: 1000}, log)
		for n := range 200 {
			log.put(idOf(n+1), txn.Committing, "a")
			r.Add(idOf(n + 1))
		}
		within(t, time.Minute, "all", log.allDone)
		var tenths [10]int
		start := res.made()[0].at
		for _, v := range res.made()[200:] {
			d := v.at.Sub(start)
			if v.n != 2 || d >= 100*time.Millisecond {
				t.Fatalf("call %d after %v", v.n, d)
			}
			tenths[d/(10*time.Millisecond)]++
		}
		for i, n := range tenths {
			if n < 5 || n > 40 {
				t.Errorf("%d of 200 came back in tenth %d: %v", n, i, tenths)
			}
		}
	})
}

func TestPrecedence(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := newLog()
		res := newParticipant(log, "a")
		for n := range 200 {
			log.put(idOf(n+1), txn.RollingBack, "a")
			log.put(idOf(n+1001), txn.Committing, "a")
		}
		r := New(Config{NewOptimizer: fixed(1), Rand: seeded(1), SweepEvery: -1}, log)
		log.setRecovery(r)
		for n := range 200 {
			r.Add(idOf(n+1), idOf(n+1001))
		}
		r.Start()
		defer r.Stop()
		within(t, time.Minute, "all", log.allDone)
		commits := 0
		for _, v := range res.made()[:100] {
			if v.verb == plan.Commit {
				commits++
			}
		}
		// Of eleven turns eight are theirs.
		if commits < 72 || commits > 74 {
			t.Errorf("%d of the first 100 calls are commits", commits)
		}
	})
}

func TestPrepares(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := newLog()
		a, b := newParticipant(log, "a"), newParticipant(log, "b")
		r := begin(t, Config{}, log)
		ask := func(id txn.ID, d time.Duration) {
			log.put(id, txn.Preparing, "a", "b").deadline = time.Now().Add(d)
			r.Add(id)
		}
		ask(idOf(1), time.Minute)
		within(t, time.Minute, "commit", log.allDone)
		if s := log.state(idOf(1)); s != txn.Committed || len(b.made()) != 2 {
			t.Fatalf("state %v, %d calls; want committed after prepare and commit", s, len(b.made()))
		}

		synctest.Wait()
		log.renew()
		b.votes[2] = txn.VoteNo
		ask(idOf(2), time.Minute)
		within(t, time.Minute, "rollback", log.allDone)
		if s := log.state(idOf(2)); s != txn.RolledBack {
			t.Fatalf("state %v, want rolled back", s)
		}

		synctest.Wait()
		log.renew()
		b.votes[2] = txn.VoteReadOnly
		ask(idOf(3), time.Minute)
		within(t, time.Minute, "read-only", log.allDone)
		synctest.Wait()
		if s, n := log.state(idOf(3)), b.counts["commit"+txn.XID(cluster, idOf(3), 2)]; s != txn.Committed || n != 0 {
			t.Fatalf("state %v, %d commits of the read-only branch", s, n)
		}
		if a.preparedCount()+b.preparedCount() != 0 {
			t.Errorf("%d branches are still prepared", a.preparedCount()+b.preparedCount())
		}
		wantEmpty(t, r)
	})
}

// TestPrepareEndsAtTheDeadline: a participant that hangs during prepare is not asked
// again after the deadline, and the rollback does not wait for it.
func TestPrepareEndsAtTheDeadline(t *testing.T) {
	for _, c := range []struct {
		name            string
		deadline, event time.Duration
	}{
		{"by the clock", 3 * time.Second, 3 * time.Second},
		{"decided before", 8 * time.Second, 2 * time.Second},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				log := newLog()
				res := newParticipant(log, "a")
				res.setFault(func(v recordedCall) fault {
					if v.verb == plan.Prepare {
						return hang
					}
					return none
				})
				r := begin(t, Config{}, log)
				start, id := time.Now(), idOf(1)
				log.put(id, txn.Preparing, "a").deadline = start.Add(c.deadline)
				r.Add(id)
				sleep(t.Context(), c.event)
				log.decide(id, txn.RollingBack, txn.CauseTimeout)
				within(t, 10*time.Millisecond, "rollback", log.allDone)
				sleep(t.Context(), 100*time.Millisecond)
				calls := res.made()
				if len(calls) != 2 || calls[0].verb != plan.Prepare || calls[0].outcome == nil || calls[1].verb != plan.Rollback {
					t.Errorf("calls: %+v", calls)
				}
				if h := r.Health("a"); !h.Healthy {
					t.Errorf("a short deadline spoke against the participant: %+v", h)
				}
				wantEmpty(t, r)
			})
		})
	}
}

// TestNobodyIsAskedAfterTheDecision: a branch that is queued when the
// transaction is decided is not called for the old action.
func TestNobodyIsAskedAfterTheDecision(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := newLog()
		res := newParticipant(log, "a")
		res.latency = time.Second
		r := begin(t, Config{NewOptimizer: fixed(1)}, log)
		for n := range 20 {
			log.put(idOf(n+1), txn.Preparing, "a")
			log.with(func() { log.txs[idOf(n+1)].deadline = time.Now().Add(time.Hour) })
			r.Add(idOf(n + 1))
		}
		sleep(t.Context(), 2500*time.Millisecond) // the third is being asked
		for n := range 20 {
			if log.state(idOf(n+1)) == txn.Preparing {
				log.decide(idOf(n+1), txn.RollingBack, txn.CauseOperator)
			}
		}
		within(t, time.Minute, "all", log.allDone)
		asked := 0
		for _, v := range res.made() {
			if v.verb == plan.Prepare {
				asked++
			}
		}
		if asked > 3 || res.preparedCount() != 0 {
			t.Errorf("%d were asked, %d are still prepared", asked, res.preparedCount())
		}
		synctest.Wait()
		wantEmpty(t, r)
	})
}

func TestAttemptsSayWhy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := newLog()
		newParticipant(log, "a").setFault(always(hang))
		newParticipant(log, "b").setFault(always(fail))
		log.parts["plain"] = plainParticipant{newParticipant(log, "inner")}
		log.openErr["shut"] = errors.New("dial postgres://app:s3cret@db/x: refused")
		r := begin(t, Config{}, log)
		id := idOf(1)
		log.put(id, txn.RollingBack, "a", "b", "shut")
		r.Add(id)
		sleep(t.Context(), 9*time.Second)
		as := r.RetryStates(id)
		if len(as) != 3 {
			t.Fatalf("%d attempts", len(as))
		}
		if a := as[0]; !a.Running || a.Count != 0 || a.Participant != "a" || a.Action != plan.Rollback {
			t.Errorf("hung: %+v", a)
		}
		if b := as[1]; b.Running || b.Count < 4 || b.LastError != "rollback: connection refused" ||
			b.NextTry <= 0 || (b.WaitReason != plan.Backoff && b.WaitReason != plan.Unhealthy) {
			t.Errorf("failing: %+v", b)
		}
		if s := as[2]; s.Count < 4 || s.LastError != "open participant: dial postgres://app:***@db/x: refused" {
			t.Errorf("shut: %+v", s)
		}
		sleep(t.Context(), 2*time.Second)
		if a := r.RetryStates(id)[0]; a.Count != 1 || !strings.HasPrefix(a.LastError, "no answer within 10s") {
			t.Errorf("hung, later: %+v", a)
		}
		if as := r.RetryStates(idOf(99)); as != nil {
			t.Errorf("nothing to do, yet %+v", as)
		}

		asked := idOf(2)
		log.put(asked, txn.Preparing, "plain").deadline = time.Now().Add(time.Minute)
		r.Add(asked)
		sleep(t.Context(), time.Second)
		if as := r.RetryStates(asked); !strings.Contains(as[0].LastError, "coordinator_prepares") {
			t.Errorf("not a Preparer: %+v", as)
		}
	})
}

func TestRetryForgetsBackoff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := newLog()
		res := newParticipant(log, "a")
		res.setFault(always(fail))
		r := begin(t, Config{BackoffBase: 20 * time.Minute, BackoffMax: time.Hour, BreakerMax: time.Hour}, log)
		id := idOf(1)
		log.put(id, txn.Committing, "a")
		r.Add(id)
		synctest.Wait()
		for n := 1; n <= 10; n++ {
			if calls := len(res.made()); calls != n {
				t.Fatalf("%d calls after %d retries", calls, n-1)
			}
			r.Retry(id)
			synctest.Wait()
		}
		if h := r.Health("a"); h.Healthy {
			t.Errorf("healthy after ten failures: %+v", h)
		}
		res.setFault(nil)
		r.Retry(id)
		within(t, time.Second, "commit", log.allDone)
	})
}

// TestReportedButUndone: a log that accepts a report and shows the same work
// again must not cause a busy loop.
func TestReportedButUndone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := newLog()
		res := newParticipant(log, "a")
		r := begin(t, Config{}, &forgetfulLog{log})
		id := idOf(1)
		log.put(id, txn.Committing, "a")
		r.Add(id)
		sleep(t.Context(), time.Minute)
		if n := len(res.made()); n < 3 || n > 30 {
			t.Errorf("%d calls in a minute", n)
		}
		if as := r.RetryStates(id); as[0].LastError != "reported, but still undone in the log" {
			t.Errorf("%+v", as)
		}
	})
}
