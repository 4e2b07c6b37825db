package recovery

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/txmgr/txmgr/participant"
	"github.com/txmgr/txmgr/recovery/plan"
	"github.com/txmgr/txmgr/txn"
)

// onlyReads fails the test unless a participant was asked about outcomes, and nothing else; it returns how often.
func onlyReads(t *testing.T, name string, p *fakeParticipant) int {
	t.Helper()
	for _, v := range p.made() {
		if v.verb != plan.ReadOutcome {
			t.Errorf("%s: %v of %v", name, v.verb, v.branch.ID)
		}
	}
	return len(p.made())
}

// TestCommittedDeciderOfADeadClient: the client died after the commit that decides, and before it said so. The others, prepared
// at two participants, are committed soon after the grace, and long before the deadline.
func TestCommittedDeciderOfADeadClient(t *testing.T) {
	worst := time.Duration(0)
	for seed := range uint64(30) {
		synctest.Test(t, func(t *testing.T) {
			log := newLog()
			stock, pay, bank := newParticipant(log, "stock"), newParticipant(log, "pay"), newParticipant(log, "bank")
			r := begin(t, Config{SweepEvery: DefaultSweepEvery, Rand: seeded(seed)}, log)
			sleep(t.Context(), time.Minute+time.Duration(seed)*100*time.Millisecond)
			died := time.Now()
			id := txn.NewID(died, [9]byte{1})
			log.appoint(id, "stock", "pay", "bank")
			bank.setEnd(txn.XID(cluster, id, 3), participant.Committed)
			within(t, time.Minute, "committed", log.allDone)
			worst = max(worst, time.Since(died))
			synctest.Wait()
			if s := log.state(id); s != txn.Committed || stock.preparedCount()+pay.preparedCount() != 0 {
				t.Errorf("%v, %d still prepared", s, stock.preparedCount()+pay.preparedCount())
			}
			if n := onlyReads(t, "bank", bank); n == 0 || n > 2 {
				t.Errorf("bank was asked %d times by two sweeps", n)
			}
			for _, p := range []*fakeParticipant{stock, pay} {
				calls := p.made()
				if len(calls) != 1 || calls[0].verb != plan.Commit {
					t.Errorf("calls of one that does not decide: %+v", calls)
				}
			}
			if h := r.History(id); len(h[3].Attempts) == 0 || h[3].Attempts[0].Call != "read outcome" {
				t.Errorf("history: %+v", h)
			}
			sleep(t.Context(), time.Minute)
			wantEmpty(t, r)
			r.visits.reading.Range(func(id, _ any) bool { t.Errorf("%v is still being asked about", id); return true })
		})
	}
	// The grace before the question, the time to the next visit of two participants, and the grace before the others are committed.
	if grace := time.Second; worst > grace+DefaultSweepEvery+grace+100*time.Millisecond {
		t.Errorf("the latest of 30 ended after %v", worst)
	}
	t.Logf("the latest of 30 ended after %v", worst)
}

// TestUndecidedDeciderIsLeftAlone: as long as no commit is proved nothing changes: no branch is ended, nothing is reported, and the decider's
// participant is asked at most once in each sweep. The sweep of the others goes on, also when that participant hangs.
func TestUndecidedDeciderIsLeftAlone(t *testing.T) {
	for name, c := range map[string]struct {
		end   participant.BranchOutcome
		fault fault
		plain bool // it cannot be read there
	}{
		"open":              {},
		"rolled back":       {end: participant.RolledBack},
		"unknown":           {end: participant.Unknown},
		"away":              {participant.Committed, fail, false},
		"hangs":             {participant.Committed, hang, false},
		"answers late":      {participant.Committed, late, false},
		"panics":            {participant.Committed, crash, false},
		"lies":              {participant.Committed, lie, false},
		"cannot be read":    {participant.Committed, none, true},
		"is not opened now": {participant.Committed, none, false},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				log := newLog()
				stock, bank := newParticipant(log, "stock"), newParticipant(log, "bank")
				begin(t, Config{SweepEvery: 5 * time.Second}, log)
				id := idOf(1)
				log.appoint(id, "stock", "bank")
				bank.setEnd(txn.XID(cluster, id, 2), c.end)
				bank.setFault(always(c.fault))
				if c.plain {
					log.with(func() { log.parts["bank"] = plainParticipant{bank} })
				}
				if name == "is not opened now" {
					log.with(func() { log.openErr["bank"] = errDown })
				}
				sleep(t.Context(), time.Minute)
				if s := log.state(id); s != txn.Active || log.told() != 0 {
					t.Errorf("%v, %d reports", s, log.told())
				}
				if n := onlyReads(t, "bank", bank); n > 13 || (n == 0) != (c.plain || name == "is not opened now") {
					t.Errorf("asked %d times in twelve sweeps", n)
				}
				if onlyReads(t, "stock", stock) != 0 || stock.preparedCount() != 1 {
					t.Errorf("stock: %+v, %d prepared", stock.made(), stock.preparedCount())
				}
				bank.mu.Lock()
				if bank.most > 1 {
					t.Errorf("asked %d times at once about one transaction", bank.most)
				}
				bank.mu.Unlock()
				stock.prepare(txn.XID(cluster, idOf(2), 1))
				sleep(t.Context(), 6*time.Second+10*time.Millisecond)
				if stock.preparedCount() != 1 {
					t.Error("an orphan is still prepared after a sweep's time")
				}
			})
		})
	}
}

// TestDecidersAreReadByASweepThatActs: what only shows, or may not act, asks no decider.
func TestDecidersAreReadByASweepThatActs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := newLog()
		stock, bank := newParticipant(log, "stock"), newParticipant(log, "bank")
		r := begin(t, Config{}, log)
		id := idOf(1)
		log.appoint(id, "stock", "bank")
		bank.setEnd(txn.XID(cluster, id, 2), participant.Committed)
		sweep := func(apply bool) {
			fs, err := r.Sweep(t.Context(), "stock", apply)
			if err == nil && (len(fs) != 1 || fs[0].Class != "leave" || fs[0].State != txn.Active) {
				t.Errorf("%+v", fs)
			}
			synctest.Wait()
		}
		sweep(false)
		if _, err := r.InspectLocks(t.Context(), "stock"); err != nil {
			t.Error(err)
		}
		log.with(func() { log.held = true })
		sweep(true)
		log.with(func() { log.held, log.lookupErr = false, errNoLeader })
		sweep(true) // deposed
		log.with(func() { log.lookupErr = nil })
		sleep(t.Context(), time.Minute)
		if n := len(bank.made()) + len(stock.made()); n != 0 {
			t.Errorf("%d calls", n)
		}

		log.failReports(func(txn.ID, int) error { return errors.New("not the leader") })
		sweep(true)
		sleep(t.Context(), time.Minute)
		if n, s := onlyReads(t, "bank", bank), log.state(id); n != 1 || s != txn.Active {
			t.Errorf("the log refused what was read: asked %d times, %v", n, s)
		}
		log.failReports(nil)
		sweep(true)
		within(t, 2*time.Second, "committed", log.allDone)
		if n := onlyReads(t, "bank", bank); n != 2 {
			t.Errorf("asked %d times by two sweeps", n)
		}
	})
}

// TestDeciderReadBesideTheDeadline: the deadline comes while the decider is being asked. What is read then is reported, and is
// true; the resolution finds the same.
func TestDeciderReadBesideTheDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := newLog()
		stock, bank := newParticipant(log, "stock"), newParticipant(log, "bank")
		bank.latency = 3 * time.Second
		r := begin(t, Config{}, log)
		id := idOf(1)
		log.appoint(id, "stock", "bank")
		bank.setEnd(txn.XID(cluster, id, 2), participant.Committed)
		if _, err := r.Sweep(t.Context(), "stock", true); err != nil {
			t.Fatal(err)
		}
		sleep(t.Context(), time.Second)
		log.findOut(id, txn.CauseTimeout)
		within(t, time.Minute, "ended", log.allDone)
		sleep(t.Context(), time.Minute)
		if s, h := log.state(id), log.hazards(id); s != txn.Committed || h[0] != 0 || h[1] != 0 || stock.preparedCount() != 0 {
			t.Errorf("%v, heuristic outcomes %v", s, h)
		}
		wantEmpty(t, r)
	})
}

// TestOthersWaitForTheDecider: when the end of the appointed branch is found out, only its participant is asked; the others follow the
// decision.
func TestOthersWaitForTheDecider(t *testing.T) {
	for name, c := range map[string]struct {
		end    participant.BranchOutcome
		forget bool
		want   txn.State
		hazard txn.Heuristic
	}{
		"committed":       {participant.Committed, false, txn.Committed, 0},
		"still open":      {0, false, txn.RolledBack, 0},
		"nothing told it": {0, true, txn.RolledBack, txn.HeuristicHazard},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				log := newLog()
				stock, pay, bank := newParticipant(log, "stock"), newParticipant(log, "pay"), newParticipant(log, "bank")
				r := begin(t, Config{SweepEvery: 5 * time.Second}, log)
				id := idOf(1)
				log.appoint(id, "stock", "bank", "pay")
				log.with(func() {
					branches := log.txs[id].branches // the decider is in the middle
					branches[1].vote, branches[2].vote = txn.VoteDelegated, 0
				})
				pay.prepare(txn.XID(cluster, id, 3))
				bank.setFault(always(fail))
				sleep(t.Context(), 10*time.Second)
				log.findOut(id, txn.CauseTimeout)
				sleep(t.Context(), time.Minute)
				for who, p := range map[string]*fakeParticipant{"stock": stock, "pay": pay} {
					if len(p.made()) != 0 || p.preparedCount() != 1 {
						t.Errorf("%s, before the decision: %+v", who, p.made())
					}
				}
				if n := len(bank.made()); n < 5 {
					t.Errorf("bank was asked %d times", n)
				}
				bank.setEnd(txn.XID(cluster, id, 2), c.end)
				bank.setFault(nil)
				if c.forget {
					bank.setFault(always(forget))
				}
				r.Retry(id)
				within(t, time.Minute, "ended", log.allDone)
				synctest.Wait()
				if s, h := log.state(id), log.hazards(id); s != c.want || h[0] != 0 || h[1] != c.hazard || h[2] != 0 {
					t.Errorf("%v, heuristic outcomes %v", s, h)
				}
				if n := stock.preparedCount() + pay.preparedCount(); n != 0 {
					t.Errorf("%d still prepared", n)
				}
				sleep(t.Context(), time.Minute)
				wantEmpty(t, r)
			})
		})
	}
}
