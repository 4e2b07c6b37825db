package recovery

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/txmgr/txmgr/participant"
	"github.com/txmgr/txmgr/recovery/plan"
	"github.com/txmgr/txmgr/txn"
)

// TestSettleAtTheDeadline: a delegated decision is left to its branch until the
// deadline, also when an operator retries and by a new leader, and resolved then.
func TestSettleAtTheDeadline(t *testing.T) {
	const timeout = 30 * time.Second
	for _, c := range []struct {
		name   string
		ended  participant.BranchOutcome // what the application did
		forget bool
		want   txn.State
		hazard txn.Heuristic
	}{
		{"committed", participant.Committed, false, txn.Committed, 0},
		{"rolled back", participant.RolledBack, false, txn.RolledBack, 0},
		{"hung", 0, false, txn.RolledBack, 0},
		{"no proof", 0, true, txn.RolledBack, txn.HeuristicHazard},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				log := newLog()
				res := newParticipant(log, "a")
				if c.forget {
					res.setFault(always(forget))
				}
				r := begin(t, Config{}, log)
				start, id := time.Now(), idOf(1)
				log.delegate(id, timeout, "a")
				res.ended[txn.XID(cluster, id, 1)] = c.ended
				r.Add(id, id)
				sleep(t.Context(), 500*time.Millisecond)
				r.Add(id)
				r.DeferToClient(id)
				for range 20 {
					sleep(t.Context(), time.Second)
					r.Retry(id)
				}
				if as := r.RetryStates(id); len(as) != 1 || as[0].Action != plan.ResolveOutcome || as[0].WaitReason != plan.Delegated ||
					as[0].NextTry != timeout-time.Since(start) {
					t.Errorf("attempts: %+v", as)
				}
				r.mu.Lock()
				if n := r.wakeups.timers.len(); n != 1 {
					t.Errorf("%d alarms after 20 retries", n)
				}
				r.mu.Unlock()
				r.Stop()
				next := begin(t, Config{}, log) // a new leader
				next.Add(id)
				within(t, time.Minute, "settled", log.allDone)
				synctest.Wait()
				calls := res.made()
				if len(calls) != 1 || calls[0].verb != plan.ResolveOutcome {
					t.Fatalf("calls: %+v", calls)
				}
				if late := calls[0].at.Sub(start) - timeout; late < 0 || late > time.Millisecond {
					t.Errorf("settled %v after the deadline", late)
				}
				if s, h := log.state(id), log.hazards(id); s != c.want || !slices.Equal(h, []txn.Heuristic{c.hazard}) {
					t.Errorf("%v, heuristic outcomes %v; want %v, %v", s, h, c.want, c.hazard)
				}
				wantEmpty(t, next)
			})
		})
	}
}

// TestWaitingToSettleIsCheap: a successful one-phase commit costs the log
// two reads, and nothing is kept of it until its deadline; one that is not successful
// costs no more reads until then.
func TestWaitingToSettleIsCheap(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := newLog()
		res := newParticipant(log, "a")
		r := begin(t, Config{}, log)
		const n = 1000
		for k := range n {
			log.delegate(idOf(k+1), time.Hour, "a")
			r.Add(idOf(k + 1))
		}
		synctest.Wait()
		for k := range n - 1 {
			log.ack(idOf(k + 1))
		}
		sleep(t.Context(), 2*time.Second)
		if asked := log.asked(); asked != 2*n {
			t.Errorf("asked the log %d times, want %d", asked, 2*n)
		}
		r.mu.Lock()
		if tasks, tries, alarms := len(r.pending.transactions), len(r.attempts), r.wakeups.timers.len(); tasks != 1 || tries != 0 || alarms != 1 {
			t.Errorf("%d tasks, %d tries, %d alarms; want those of the one that is not finished", tasks, tries, alarms)
		}
		r.mu.Unlock()
		sleep(t.Context(), time.Hour-3*time.Second)
		if asked := log.asked(); asked != 2*n || len(res.made()) != 0 {
			t.Errorf("asked the log %d times while waiting, and the participant %d times", asked-2*n, len(res.made()))
		}
		within(t, 2*time.Second, "settled", log.allDone)
		synctest.Wait()
		wantEmpty(t, r)
	})
}

// TestShortDeadlineIsNotMissed: the grace does not delay the resolution.
func TestShortDeadlineIsNotMissed(t *testing.T) {
	for _, timeout := range []time.Duration{0, time.Millisecond, time.Second, 1010 * time.Millisecond, 1011 * time.Millisecond} {
		synctest.Test(t, func(t *testing.T) {
			log := newLog()
			res := newParticipant(log, "a")
			r := begin(t, Config{}, log)
			start := time.Now()
			log.delegate(idOf(1), timeout, "a")
			r.Add(idOf(1))
			within(t, time.Minute, "settled", log.allDone)
			if late := res.made()[0].at.Sub(start) - timeout; late < 0 || late > time.Millisecond {
				t.Errorf("timeout %v: settled %v after it", timeout, late)
			}
		})
	}
}

// TestSettleFaults: a failed call is repeated until it is known how the branch
// ended; a branch that the application committed is never called rolled back.
func TestSettleFaults(t *testing.T) {
	for _, f := range []fault{hang, fail, refuse, late, lose, crash, lie} {
		synctest.Test(t, func(t *testing.T) {
			log := newLog()
			res := newParticipant(log, "a")
			res.setFault(func(v recordedCall) fault {
				if v.n <= 3 {
					return f
				}
				return none
			})
			r := begin(t, Config{}, log)
			for n := range 40 {
				id := idOf(n + 1)
				log.delegate(id, time.Second, "a")
				if n%2 == 0 {
					res.ended[txn.XID(cluster, id, 1)] = participant.Committed
				}
				r.Add(id)
			}
			within(t, 30*time.Minute, "all", log.allDone)
			synctest.Wait()
			for n := range 40 {
				want := []txn.State{txn.Committed, txn.RolledBack}[n%2]
				if s := log.state(idOf(n + 1)); s != want || log.hazards(idOf(n + 1))[0] != 0 {
					t.Errorf("fault %d: %v, heuristic outcomes %v; want %v", f, s, log.hazards(idOf(n+1)), want)
				}
			}
			if calls := len(res.made()); calls != 160 {
				t.Errorf("fault %d: %d calls, want 160", f, calls)
			}
			wantEmpty(t, r)
		})
	}
}

// TestSettleBesideADecision: the application reports the end of its branch
// while the participant is being asked.
func TestSettleBesideADecision(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := newLog()
		res := newParticipant(log, "a")
		res.latency = 2 * time.Second
		r := begin(t, Config{}, log)
		id := idOf(1)
		log.delegate(id, time.Second, "a")
		res.ended[txn.XID(cluster, id, 1)] = participant.Committed
		r.Add(id)
		sleep(t.Context(), 2*time.Second)
		log.ack(id)
		sleep(t.Context(), time.Minute)
		if s := log.state(id); s != txn.Committed || len(res.made()) != 1 {
			t.Errorf("%v after %d calls", s, len(res.made()))
		}
		wantEmpty(t, r)
	})
}

// TestNoSettler: a participant that cannot resolve outcomes is asked slowly, returns an error,
// and does not count as failing: its other branches are driven.
func TestNoSettler(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := newLog()
		res := newParticipant(log, "inner")
		log.parts["plain"] = plainParticipant{res}
		r := begin(t, Config{}, log)
		for n := range 10 {
			log.delegate(idOf(n+1), time.Second, "plain")
			r.Add(idOf(n + 1))
		}
		before := log.asked()
		sleep(t.Context(), 10*time.Minute)
		as := r.RetryStates(idOf(1))
		if as[0].Count < 15 || as[0].Count > 45 || !strings.Contains(as[0].LastError, "cannot tell afterwards") {
			t.Errorf("attempts in ten minutes: %+v", as)
		}
		if asked := log.asked() - before; asked > 10*50 {
			t.Errorf("asked the log %d times", asked)
		}
		if h := r.Health("plain"); !h.Healthy || h.Failures != 0 {
			t.Errorf("blamed: %+v", h)
		}
		log.put(idOf(11), txn.Committing, "plain")
		r.Add(idOf(11))
		sleep(t.Context(), time.Second)
		if s := log.state(idOf(11)); s != txn.Committed {
			t.Errorf("another transaction is %v", s)
		}
	})
}

// TestPrepareBesideSettle: of one transaction with both kinds, the one is prepared
// before the deadline only, and the other resolved after it only.
func TestPrepareBesideSettle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := newLog()
		asked, delegated := newParticipant(log, "asked"), newParticipant(log, "delegated")
		asked.setFault(always(fail))
		r := begin(t, Config{}, log)
		start := time.Now()
		x := log.put(idOf(1), txn.Preparing, "asked", "delegated")
		log.with(func() { x.deadline, x.branches[1].vote = start.Add(10*time.Second), txn.VoteDelegated })
		r.Add(idOf(1))
		sleep(t.Context(), 20*time.Second)
		calls := delegated.made()
		if len(calls) != 1 || calls[0].verb != plan.ResolveOutcome || calls[0].at.Sub(start) < 10*time.Second {
			t.Errorf("calls: %+v", calls)
		}
		prepares := asked.made()
		for _, v := range prepares {
			if v.verb == plan.Prepare && v.at.Sub(start) >= 10*time.Second {
				t.Errorf("asked for its vote %v after the begin", v.at.Sub(start))
			}
		}
		if len(prepares) < 3 {
			t.Errorf("asked %d times only", len(prepares))
		}
	})
}

// TestPreparesRunInParallel: three participants of one second each take one second,
// and each receives the time left and may return why it refuses.
func TestPreparesRunInParallel(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := newLog()
		names := []string{"a", "b", "c"}
		for _, name := range names {
			newParticipant(log, name).latency = time.Second
		}
		c := log.parts["c"].(*fakeParticipant)
		c.votes[3], c.reason = txn.VoteNo, "out of stock,\npassword=hunter2"
		r := begin(t, Config{}, log)
		start, id := time.Now(), idOf(1)
		log.put(id, txn.Preparing, names...).deadline = start.Add(7 * time.Second)
		r.Add(id)
		sleep(t.Context(), time.Second)
		synctest.Wait()
		if s := log.state(id); s != txn.RollingBack {
			t.Errorf("%v after one second, want all votes", s)
		}
		for _, name := range names {
			v := log.parts[name].(*fakeParticipant).made()[0]
			if v.verb != plan.Prepare || v.at != start || v.branch.TimeLeft != 7*time.Second {
				t.Errorf("%s: %v %v after the begin with %v left", name, v.verb, v.at.Sub(start), v.branch.TimeLeft)
			}
		}
		within(t, 2*time.Second, "rolled back", log.allDone)
		said := ""
		for _, rs := range log.accepted(id) {
			for _, rep := range rs {
				if rep.Vote == txn.VoteNo {
					said = rep.Detail
				}
			}
		}
		if said != "out of stock, password=***" {
			t.Errorf("the reason of the no: %q", said)
		}
		for _, name := range names {
			for _, v := range log.parts[name].(*fakeParticipant).made()[1:] {
				if v.branch.TimeLeft != 0 {
					t.Errorf("%s: %v was told of a deadline", name, v.verb)
				}
			}
		}
	})
}

// TestPrepareTimeLeft: a retry receives the time left then.
func TestPrepareTimeLeft(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := newLog()
		res := newParticipant(log, "a")
		res.setFault(func(v recordedCall) fault {
			if v.n <= 4 {
				return fail
			}
			return none
		})
		r := begin(t, Config{BackoffBase: 2 * time.Second}, log)
		end := time.Now().Add(time.Minute)
		log.put(idOf(1), txn.Preparing, "a").deadline = end
		r.Add(idOf(1))
		within(t, time.Minute, "commit", log.allDone)
		for _, v := range res.made()[:5] {
			if v.branch.TimeLeft != end.Sub(v.at) {
				t.Errorf("try %d was told %v, want %v", v.n, v.branch.TimeLeft, end.Sub(v.at))
			}
		}
	})
}

// TestMissingPreparerIsNotBlamed: a wrong registration delays no other branch of the
// participant.
func TestMissingPreparerIsNotBlamed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := newLog()
		log.parts["plain"] = plainParticipant{newParticipant(log, "inner")}
		log.openErr["inner"] = errors.New("not registered")
		r := begin(t, Config{}, log)
		for n := range 20 {
			log.put(idOf(n+1), txn.Preparing, "plain").deadline = time.Now().Add(time.Hour)
			r.Add(idOf(n + 1))
		}
		sleep(t.Context(), time.Minute)
		if h := r.Health("plain"); !h.Healthy {
			t.Errorf("blamed: %+v", h)
		}
	})
}
