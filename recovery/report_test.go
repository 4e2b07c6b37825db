package recovery

import (
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/txmgr/txmgr/txn"
)

var errNoLeader = fmt.Errorf("not the leader: %w", txn.ErrUnavailable)

// TestLogAway: while nothing can be recorded, no more calls are made than are
// under way, no result is lost, and no call is repeated for want of a record.
func TestLogAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := newLog()
		res := newParticipant(log, "a")
		r := begin(t, Config{MaxReports: 16}, log)
		back := time.Now().Add(time.Minute)
		log.failReports(func(txn.ID, int) error {
			if time.Now().Before(back) {
				return errNoLeader
			}
			return nil
		})
		const n = 2000
		for k := range n {
			log.put(idOf(k+1), txn.Committing, "a")
			r.Add(idOf(k + 1))
		}
		sleep(t.Context(), 59*time.Second)
		if calls := len(res.made()); calls == 0 || calls > 4*16+32 {
			t.Errorf("%d calls while the log was away", calls)
		}
		if log.told() > 300 {
			t.Errorf("%d reports while the log was away", log.told())
		}
		tried := res.made()[0].branch.TX
		if as := r.RetryStates(tried); as[0].Count == 0 || as[0].LastError != "record the result: not the leader: unavailable" {
			t.Errorf("attempts: %+v", as)
		}
		if h := r.Health("a"); !h.Healthy {
			t.Errorf("the participant is blamed: %+v", h)
		}
		within(t, 10*time.Second, "all", log.allDone)
		synctest.Wait()
		if calls := len(res.made()); calls != n {
			t.Errorf("%d calls for %d branches", calls, n)
		}
		wantEmpty(t, r)
	})
}

// TestReportsArePacked: results that arrive while a report is under way go in one.
func TestReportsArePacked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := newLog()
		log.delay = 50 * time.Millisecond
		var names []string
		for i := range 6 {
			names = append(names, fmt.Sprintf("p%d", i))
			newParticipant(log, names[i]).latency = time.Duration(i+1) * 5 * time.Millisecond
		}
		r := begin(t, Config{}, log)
		log.put(idOf(1), txn.Committing, names...)
		r.Add(idOf(1))
		within(t, time.Second, "all", log.allDone)
		rs := log.accepted(idOf(1))
		if len(rs) != 2 || len(rs[0]) != 1 || len(rs[1]) != 5 {
			t.Errorf("reports: %+v; want one branch, then five", rs)
		}
	})
}

// TestMootReports: a result that the log refuses for good is not reported again
// for ever.
func TestMootReports(t *testing.T) {
	for _, c := range []struct {
		name  string
		err   error
		calls func(int) bool
	}{
		{"conflict", fmt.Errorf("%w: acknowledged already", txn.ErrConflict), func(n int) bool { return n == 1 }},
		{"unavailable", errNoLeader, func(n int) bool { return n == 1 }},
		{"no sentinel", errors.New("broken pipe"), func(n int) bool { return n == 1 }},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				log := newLog()
				newParticipant(log, "a")
				r := begin(t, Config{}, log)
				id := idOf(1)
				log.put(id, txn.Committing, "a")
				log.failReports(func(txn.ID, int) error {
					log.ack(id) // the client was faster
					return c.err
				})
				r.Add(id)
				sleep(t.Context(), time.Minute)
				if !c.calls(log.told()) {
					t.Errorf("%d reports", log.told())
				}
				wantEmpty(t, r)
			})
		})
	}
}

// TestLogBreakerClosesWithNewWork: when every report of an outage became obsolete,
// nothing is left to probe the log with, and new work has to be let through.
func TestLogBreakerClosesWithNewWork(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := newLog()
		newParticipant(log, "a")
		r := begin(t, Config{}, log)
		log.failReports(func(id txn.ID, call int) error {
			if call > 20 {
				return nil
			}
			log.ack(id)
			return errNoLeader
		})
		for n := range 20 {
			log.put(idOf(n+1), txn.Committing, "a")
			r.Add(idOf(n + 1))
		}
		within(t, time.Minute, "the moot ones", log.allDone)
		sleep(t.Context(), time.Minute)
		log.renew()
		log.put(idOf(21), txn.Committing, "a")
		r.Add(idOf(21))
		within(t, time.Minute, "new work", log.allDone)
	})
}

// TestStuckReportDelaysOnlyItself: a transaction whose reports are refused again
// and again keeps none of the others from being recorded.
func TestStuckReportDelaysOnlyItself(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := newLog()
		res := newParticipant(log, "a")
		r := begin(t, Config{MaxReports: 2}, log)
		log.failReports(func(id txn.ID, _ int) error {
			if id.Compare(idOf(20)) <= 0 {
				return fmt.Errorf("%w: no such branch", txn.ErrInvalid)
			}
			return nil
		})
		for n := range 500 {
			log.put(idOf(n+1), txn.Committing, "a")
			r.Add(idOf(n + 1))
		}
		log.with(func() { log.left -= 20 })
		within(t, 10*time.Second, "the others", log.allDone)
		sleep(t.Context(), time.Minute)
		if n := len(res.made()); n != 500 {
			t.Errorf("%d calls for 500 branches", n)
		}
		if as := r.RetryStates(idOf(1)); as[0].Count < 10 || !as[0].Running {
			t.Errorf("%+v", as)
		}
	})
}
