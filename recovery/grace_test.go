package recovery

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/txmgr/txmgr/recovery/plan"
	"github.com/txmgr/txmgr/recovery/queue"
	"github.com/txmgr/txmgr/txn"
)

// ends returns the calls that finish a branch.
func (p *fakeParticipant) ends() []recordedCall {
	return slices.DeleteFunc(p.made(), func(v recordedCall) bool { return v.verb != plan.Commit && v.verb != plan.Rollback })
}

// calledAt checks that every branch was finished by one call, so long after start.
func calledAt(t *testing.T, p *fakeParticipant, branches int, start time.Time, after time.Duration) {
	t.Helper()
	calls := p.ends()
	if len(calls) != branches {
		t.Errorf("%d calls for %d branches: %+v", len(calls), branches, calls)
	}
	for _, v := range calls {
		if late := v.at.Sub(start) - after; late < 0 || late > queue.GraceWindow+5*time.Millisecond {
			t.Errorf("%v of %v after %v, want %v", v.verb, v.branch.XID, v.at.Sub(start), after)
		}
	}
}

// TestGraceBelongsToTheBranch: the coordinator's branches are driven when the
// decision is there, and those that the client completes when the grace
// has expired, whichever way it was decided, and whether the others hang or not.
func TestGraceBelongsToTheBranch(t *testing.T) {
	const decided = 300 * time.Millisecond // after the begin, where it was preparing
	for _, c := range []struct {
		name  string
		state txn.State
		cause txn.Cause
		no    bool                                        // the second web service votes no
		meet  func(t *testing.T, log *fakeLog, id txn.ID) // decides otherwise
		at    time.Duration
		grace time.Duration
	}{
		{name: "committing", state: txn.Committing, grace: time.Second},
		{name: "the application's rollback", state: txn.RollingBack, cause: txn.CauseClient, grace: time.Second},
		{name: "a rollback by the clock", state: txn.RollingBack, cause: txn.CauseTimeout},
		{name: "the last vote", state: txn.Preparing, at: decided, grace: time.Second},
		{name: "a web service's no", state: txn.Preparing, no: true, at: decided, grace: time.Second},
		{
			name: "the application's rollback while preparing", state: txn.Preparing, at: decided / 2, grace: time.Second,
			meet: func(t *testing.T, log *fakeLog, id txn.ID) {
				sleep(t.Context(), decided/2)
				log.decide(id, txn.RollingBack, txn.CauseClient)
			},
		},
		{
			name: "the clock while preparing", state: txn.Preparing, at: decided / 2,
			meet: func(t *testing.T, log *fakeLog, id txn.ID) {
				sleep(t.Context(), decided/2)
				log.decide(id, txn.RollingBack, txn.CauseTimeout)
			},
		},
	} {
		for _, hung := range []bool{false, true} {
			name := c.name
			if hung {
				name += ", the web service hangs"
			}
			t.Run(name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					log := newLog()
					own, web, refuser := newParticipant(log, "own"), newParticipant(log, "web"), newParticipant(log, "web2")
					if c.state == txn.Preparing {
						web.latency, refuser.latency = decided, decided
					}
					if c.no {
						refuser.votes[3], web.latency = txn.VoteNo, time.Millisecond
					}
					web.setFault(func(v recordedCall) fault {
						if hung && v.verb != plan.Prepare {
							return hang
						}
						return none
					})
					r := begin(t, Config{CallTimeout: time.Minute}, log)
					start, id := time.Now(), idOf(1)
					log.putMixed(id, c.state, c.cause, "own", "web", "web2").deadline = start.Add(time.Minute)
					r.Add(id)
					if c.meet != nil {
						c.meet(t, log, id)
					}
					sleep(t.Context(), time.Until(start.Add(c.at+900*time.Millisecond)))
					calledAt(t, web, 1, start, c.at)
					if c.grace > 0 && len(own.ends()) != 0 {
						t.Errorf("the application was not left alone: %+v", own.ends())
					}
					for _, a := range r.RetryStates(id) {
						if hold := a.WaitReason == plan.ClientGrace; hold != (a.Participant == "own") {
							t.Errorf("attempt: %+v", a)
						}
					}
					sleep(t.Context(), 10*time.Second)
					calledAt(t, own, 1, start, c.at+c.grace)
					if hung != (web.busy() == 1) {
						t.Errorf("%d calls at the web service are under way", web.busy())
					}
					web.setFault(nil)
					within(t, 2*time.Minute, "finished", log.allDone)
					synctest.Wait()
					calledAt(t, own, 1, start, c.at+c.grace)
					wantEmpty(t, r)
				})
			})
		}
	}
}

// TestGraceOfOneBranchIsCheap: when the coordinator's branches are finished nothing
// is kept but the id, and clients that complete theirs in time meet no call.
func TestGraceOfOneBranchIsCheap(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const n = 1000
		log := newLog()
		own, web := newParticipant(log, "own"), newParticipant(log, "web")
		r := begin(t, Config{}, log)
		for k := range n {
			log.putMixed(idOf(k+1), txn.Committing, 0, "own", "web")
			r.Add(idOf(k + 1))
		}
		sleep(t.Context(), 500*time.Millisecond)
		if calls := len(web.made()); calls != n {
			t.Errorf("%d of %d calls of the web service", calls, n)
		}
		wantEmpty(t, r)
		for k := range n {
			log.ack(idOf(k + 1))
		}
		within(t, time.Millisecond, "finished", log.allDone)
		sleep(t.Context(), time.Second)
		// To plan it, before the call, after it, and after the grace.
		if asked := log.asked(); asked != 4*n || len(own.made()) != 0 {
			t.Errorf("asked the log %d times for %d transactions, and made %d calls", asked, n, len(own.made()))
		}
		if _, waits := r.pending.deferred.Next(); waits {
			t.Error("somebody still waits for the grace")
		}
	})
}

// TestGraceOfOneBranchHeedsHints: hints while another branch hangs neither shorten
// nor prolong the grace, nor put the transaction into the queue once more.
func TestGraceOfOneBranchHeedsHints(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := newLog()
		own, web := newParticipant(log, "own"), newParticipant(log, "web")
		web.setFault(always(hang))
		r := begin(t, Config{CallTimeout: time.Hour}, log)
		start, id := time.Now(), idOf(1)
		log.putMixed(id, txn.Committing, 0, "own", "web")
		for range 40 {
			r.Add(id)
			sleep(t.Context(), 50*time.Millisecond)
			r.mu.Lock()
			if r.pending.deferred.Len() > 1 {
				t.Errorf("%d times in the queue", r.pending.deferred.Len())
			}
			r.mu.Unlock()
		}
		calledAt(t, own, 1, start, time.Second)
		calledAt(t, web, 1, start, 0)
	})
}

// TestRetryWaivesTheGraceOfOneBranch: after the decision, but not that of a decision
// to come.
func TestRetryWaivesTheGraceOfOneBranch(t *testing.T) {
	for _, f := range []fault{none, hang} {
		synctest.Test(t, func(t *testing.T) {
			log := newLog()
			own, web := newParticipant(log, "own"), newParticipant(log, "web")
			web.latency = 300 * time.Millisecond
			web.setFault(func(v recordedCall) fault {
				if v.verb == plan.Prepare {
					return none
				}
				return f
			})
			r := begin(t, Config{CallTimeout: time.Hour}, log)
			start, early, late := time.Now(), idOf(1), idOf(2)
			for _, id := range []txn.ID{early, late} {
				log.putMixed(id, txn.Preparing, 0, "own", "web").deadline = start.Add(time.Minute)
				r.Add(id)
			}
			sleep(t.Context(), 100*time.Millisecond)
			r.Retry(early)
			sleep(t.Context(), 400*time.Millisecond)
			if n := len(own.made()); n != 0 || log.state(early) != txn.Committing {
				t.Errorf("%d calls, %v", n, log.state(early))
			}
			r.Retry(late)
			sleep(t.Context(), 10*time.Second)
			for _, v := range own.made() {
				want := map[txn.ID]time.Duration{early: 1300 * time.Millisecond, late: 500 * time.Millisecond}[v.branch.TX]
				if d := v.at.Sub(start) - want; d < 0 || d > queue.GraceWindow {
					t.Errorf("%v after %v, want %v", v.branch.XID, v.at.Sub(start), want)
				}
			}
			if n := len(own.made()); n != 2 {
				t.Errorf("%d calls", n)
			}
		})
	}
}

// TestGraceAfterFailover: a new leader counts the grace from when it sees the
// decision, and drives the coordinator's branches at once.
func TestGraceAfterFailover(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := newLog()
		own, web := newParticipant(log, "own"), newParticipant(log, "web")
		web.setFault(always(hang))
		r := begin(t, Config{CallTimeout: time.Hour}, log)
		log.putMixed(idOf(1), txn.Committing, 0, "own", "web")
		r.Add(idOf(1))
		sleep(t.Context(), 700*time.Millisecond)
		r.Stop()
		web.setFault(nil)
		start := time.Now()
		next := begin(t, Config{}, log)
		next.Add(idOf(1))
		within(t, time.Minute, "finished", log.allDone)
		calledAt(t, own, 1, start, time.Second)
		if calls := web.made(); len(calls) != 2 || calls[1].at != start {
			t.Errorf("calls: %+v", calls)
		}
		synctest.Wait()
		wantEmpty(t, next)
	})
}

// TestGraceBesideReportedButUndone: a log that shows the same work again is read
// more slowly every time, and gives no second grace.
func TestGraceBesideReportedButUndone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := newLog()
		own, web := newParticipant(log, "own"), newParticipant(log, "web")
		r := begin(t, Config{}, &forgetfulLog{log})
		start, id := time.Now(), idOf(1)
		log.putMixed(id, txn.Committing, 0, "own", "web")
		r.Add(id)
		sleep(t.Context(), time.Minute)
		for name, res := range map[string]*fakeParticipant{"own": own, "web": web} {
			if n := len(res.made()); n < 3 || n > 30 {
				t.Errorf("%s: %d calls in a minute", name, n)
			}
		}
		if first := own.made()[0].at.Sub(start); first < time.Second || first > 1100*time.Millisecond {
			t.Errorf("left alone for %v", first)
		}
		if as := r.RetryStates(id); as[0].WaitReason == plan.ClientGrace || as[0].LastError != "reported, but still undone in the log" {
			t.Errorf("%+v", as)
		}
	})
}
