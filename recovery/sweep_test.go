package recovery

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/txmgr/txmgr/participant"
	"github.com/txmgr/txmgr/txn"
	"github.com/txmgr/txmgr/txn/admin"
)

func TestOrphanAction(t *testing.T) {
	b := participant.Branch{ID: 1}
	for _, c := range []struct {
		known BranchStatus
		want  Action
	}{
		{BranchStatus{}, Rollback},
		{BranchStatus{State: txn.Active, Branch: b}, 0},
		{BranchStatus{State: txn.Active}, 0},
		{BranchStatus{State: txn.Preparing, Branch: b}, 0},
		{BranchStatus{State: txn.Committing, Branch: b, Unfinished: true}, 0},
		{BranchStatus{State: txn.Committing, Branch: b}, Commit},
		{BranchStatus{State: txn.Committed, Branch: b}, Commit},
		{BranchStatus{State: txn.Committed}, 0},
		{BranchStatus{State: txn.RollingBack, Branch: b, Unfinished: true}, 0},
		{BranchStatus{State: txn.RollingBack, Branch: b}, Rollback},
		{BranchStatus{State: txn.RolledBack, Branch: b}, Rollback},
		{BranchStatus{State: txn.RolledBack}, Rollback},
	} {
		if got := orphanAction(c.known, 0, 0); got != c.want {
			t.Errorf("%+v: %v, want %v", c.known, got, c.want)
		}
	}
	const memory = time.Hour
	for _, c := range []struct {
		age, begun time.Duration
		want       Action
	}{
		{0, 2 * memory, Rollback},      // prepared late
		{memory - 1, memory, Rollback}, // the same, some time ago
		{memory, 2 * memory, 0},        // perhaps decided and forgotten
		{time.Minute, memory - 1, 0},   // the log has lost it
		{time.Minute, -time.Minute, 0}, // the same, and the clocks differ
		{2 * memory, 2 * memory, 0},
	} {
		if got := orphanAction(BranchStatus{RetentionHorizon: memory}, c.age, c.begun); got != c.want {
			t.Errorf("prepared for %v, begun %v ago: %v, want %v", c.age, c.begun, got, c.want)
		}
	}
}

// TestSweep has one branch of every kind prepared at one participant.
func TestSweep(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := newLog()
		res := newParticipant(log, "a")
		r := begin(t, Config{}, log)
		unknown, active, committed, rolledBack, late := idOf(1), idOf(2), idOf(3), idOf(4), idOf(5)
		for id, state := range map[txn.ID]txn.State{
			active: txn.Active, committed: txn.Committed, rolledBack: txn.RolledBack, late: txn.RollingBack,
		} {
			x := log.put(id, state, "a", "elsewhere")
			x.branches[0].finished = state != txn.Active
			res.prepare(txn.XID(cluster, id, 1))
		}
		res.prepare(txn.XID(cluster, unknown, 7))
		res.prepare(txn.XID(cluster, committed, 9)) // never enlisted
		foreign := []string{
			txn.XID("c2", idOf(6), 1), txn.XID("c10", idOf(6), 1), "txm_c1", "txm_c1_", "txm_c1_x_b1", "pg_gid_1_2",
			strings.ToUpper(txn.XID(cluster, idOf(6), 1)), txn.XID(cluster, idOf(6), 1) + " ", txn.XID(cluster, idOf(6), 1)[:20], "",
		}
		for _, xid := range foreign {
			res.listed = append(res.listed, participant.Prepared{XID: xid})
		}

		want := func(applied bool) []admin.ScanResult {
			finding := func(id txn.ID, b txn.BranchID, s txn.State, verdict string) admin.ScanResult {
				return admin.ScanResult{
					Participant: "a", XID: txn.XID(cluster, id, b), ID: id, Branch: b, Owner: "app", State: s,
					Class: verdict, Done: applied && verdict != "leave",
				}
			}
			return []admin.ScanResult{
				finding(unknown, 7, 0, "rollback"),
				finding(committed, 1, txn.Committed, "commit"),
				finding(rolledBack, 1, txn.RolledBack, "rollback"),
				finding(late, 1, txn.RollingBack, "rollback"),
				finding(active, 1, txn.Active, "leave"),
				finding(committed, 9, txn.Committed, "leave"),
			}
		}
		got, err := r.Sweep(t.Context(), "a", false)
		if diff := cmp.Diff(want(false), got); diff != "" || err != nil {
			t.Fatalf("dry run: %v, -want +got:\n%s", err, diff)
		}
		if n := len(res.made()); n != 0 {
			t.Fatalf("a dry run made %d calls", n)
		}
		got, err = r.Sweep(t.Context(), "a", true)
		if diff := cmp.Diff(want(true), got); diff != "" || err != nil {
			t.Fatalf("%v, -want +got:\n%s", err, diff)
		}
		if n := len(res.made()); n != 4 || res.preparedCount() != 2 {
			t.Errorf("%d calls, %d still prepared; want 4 and 2", n, res.preparedCount())
		}
		for _, v := range res.made() {
			if v.branch.TX == committed && v.branch.SessionRef != "sb1" {
				t.Errorf("the participant was not told the branch as enlisted: %+v", v.branch)
			}
		}
	})
}

// TestLatePrepare: a prepare that comes after the rollback was acknowledged is
// found by the periodic sweep; also when another branch of the transaction is
// not finished because its participant hangs.
func TestLatePrepare(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := newLog()
		res := newParticipant(log, "a")
		newParticipant(log, "hung").setFault(always(hang))
		told := make(chan admin.ScanResult, 100)
		r := begin(t, Config{SweepEvery: 5 * time.Second, OnScanResult: func(f admin.ScanResult) { told <- f }}, log)
		log.put(idOf(1), txn.RollingBack, "a")
		log.put(idOf(2), txn.RollingBack, "a", "hung")
		r.Add(idOf(1), idOf(2))
		sleep(t.Context(), time.Minute)
		if log.state(idOf(1)) != txn.RolledBack || log.state(idOf(2)) != txn.RollingBack || res.preparedCount() != 0 {
			t.Fatal("not the situation wanted")
		}
		for n := range 5 { // as often as it comes
			res.prepare(txn.XID(cluster, idOf(1), 1))
			res.prepare(txn.XID(cluster, idOf(2), 1))
			sleep(t.Context(), 6*time.Second+10*time.Millisecond)
			if res.preparedCount() != 0 {
				t.Fatalf("round %d: %d branches are still prepared after a sweep's time", n, res.preparedCount())
			}
		}
		if len(told) != 10 {
			t.Errorf("told of %d branches, want 10", len(told))
		}
	})
}

// TestSweepFindsLostHint: pending work for which no hint came is found by the sweep.
func TestSweepFindsLostHint(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := newLog()
		newParticipant(log, "a")
		begin(t, Config{SweepEvery: 5 * time.Second}, log)
		log.put(idOf(1), txn.Committing, "a")
		log.put(idOf(2), txn.RollingBack, "a")
		within(t, 7*time.Second, "both", log.allDone)
	})
}

// TestSweepRefuses: whenever a fact is not certain, nothing is touched.
func TestSweepRefuses(t *testing.T) {
	down := errors.New("FATAL: password authentication failed, password=hunter2")
	for _, c := range []struct {
		name    string
		prepare func(*fakeLog, *fakeParticipant)
		cfg     Config
		want    string
		blind   bool
	}{
		{"deposed", func(l *fakeLog, _ *fakeParticipant) { l.lookupErr = errNoLeader }, Config{}, "sweep a: ask the log about them: not the leader", false},
		{"list fails", func(_ *fakeLog, res *fakeParticipant) { res.listErr = down }, Config{}, "sweep a: see what is prepared there: FATAL", true},
		{"cannot be opened", func(l *fakeLog, _ *fakeParticipant) { l.openErr["a"] = down }, Config{}, "sweep a: see what is prepared there: open", true},
		{"no tag", func(*fakeLog, *fakeParticipant) {}, Config{Cluster: "-"}, "sweep a: invalid argument: invalid cluster id", false},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				log := newLog()
				res := newParticipant(log, "a")
				res.prepare(txn.XID(cluster, idOf(1), 1))
				c.prepare(log, res)
				r := begin(t, c.cfg, log)
				fs, err := r.Sweep(t.Context(), "a", true)
				if err == nil || !strings.HasPrefix(err.Error(), c.want) || fs != nil {
					t.Errorf("%v, %v; want %q", fs, err, c.want)
				}
				if n := len(res.made()); n != 0 {
					t.Errorf("%d calls", n)
				}
				h := r.Health("a")
				if h.Healthy == c.blind || strings.Contains(h.LastError, "hunter2") || (c.blind && h.LastError == "") {
					t.Errorf("health: %+v", h)
				}
			})
		})
	}
}

// TestSweepHazard: a branch that is ended by hand just before the sweep ends it is a
// heuristic outcome of the transaction.
func TestSweepHazard(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := newLog()
		res := newParticipant(log, "a")
		x := log.put(idOf(1), txn.RolledBack, "a")
		x.branches[0].finished = true
		xids := []string{txn.XID(cluster, idOf(1), 1), txn.XID(cluster, idOf(2), 1)}
		for _, xid := range xids {
			res.prepare(xid)
		}
		res.setFault(func(v recordedCall) fault {
			delete(res.prepared, v.branch.XID)
			res.ended[v.branch.XID] = participant.Committed
			return none
		})
		r := begin(t, Config{}, log)
		fs, err := r.Sweep(t.Context(), "a", true)
		if err != nil || len(fs) != 2 || fs[0].Done || fs[1].Done || fs[0].Error != "ended otherwise: committed (model)" {
			t.Errorf("%v, %+v", err, fs)
		}
		synctest.Wait()
		if h := log.hazards(idOf(1)); !slices.Equal(h, []txn.Heuristic{txn.HeuristicCommit}) {
			t.Errorf("heuristic outcomes %v", h)
		}
		wantEmpty(t, r)
	})
}

// TestSweepLimit: sweeps are bounded, and branches that cannot be ended do not
// hide those behind them.
func TestSweepLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := newLog()
		res := newParticipant(log, "a")
		stuck := func(v recordedCall) bool { return v.branch.TX.Compare(idOf(50)) <= 0 }
		res.setFault(func(v recordedCall) fault {
			if stuck(v) {
				return fail
			}
			return none
		})
		for n := range 1000 {
			res.prepare(txn.XID(cluster, idOf(n+1), 1))
		}
		r := begin(t, Config{SweepLimit: 40, BreakerThreshold: 1000}, log)
		sweeps := 0
		for ; res.preparedCount() > 50 && sweeps < 1000; sweeps++ {
			before := len(res.made())
			fs, err := r.Sweep(t.Context(), "a", true)
			if n := len(res.made()) - before; err != nil || n > 40 || len(fs) > 40 {
				t.Fatalf("%d calls, %d findings, %v; want at most 40", n, len(fs), err)
			}
		}
		if sweeps == 1000 {
			t.Errorf("%d branches left after %d sweeps", res.preparedCount(), sweeps)
		}
	})
}

// TestSweepEndsWithItsContext: tasks that get no worker are withdrawn, those under
// way are cancelled, and the results say so.
func TestSweepEndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := newLog()
		res := newParticipant(log, "a")
		res.setFault(always(hang))
		for n := range 20 {
			res.prepare(txn.XID(cluster, idOf(n+1), 1))
		}
		r := begin(t, Config{}, log)
		ctx, cancel := contextWithTimeout(t, 3*time.Second)
		defer cancel()
		start := time.Now()
		fs, err := r.Sweep(ctx, "a", true)
		if took := time.Since(start); took != 3*time.Second || err != nil || len(fs) != 20 {
			t.Fatalf("%v, %d findings, %v", took, len(fs), err)
		}
		tried := 0
		for _, f := range fs {
			if f.Done || f.Error == "" {
				t.Errorf("%+v", f)
			}
			if !strings.HasPrefix(f.Error, "not tried") {
				tried++
			}
		}
		if tried != r.cfg.Start {
			t.Errorf("%d of 20 say that they were tried, want %d", tried, r.cfg.Start)
		}
		wantEmpty(t, r)
		if h := r.Health("a"); !h.Healthy {
			t.Errorf("blamed for the caller's impatience: %+v", h)
		}
	})
}

// TestSweepOfHungParticipant: sweeps of others go on, and one that cannot even
// list holds no worker.
func TestSweepOfHungParticipant(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := newLog()
		good := newParticipant(log, "good")
		for n := range 40 {
			log.parts[fmt.Sprintf("hung%d", n)] = hungLister{newParticipant(log, "inner")}
		}
		delete(log.parts, "inner")
		r := begin(t, Config{SweepEvery: 5 * time.Second}, log)
		sleep(t.Context(), time.Minute)
		for n := range 5 {
			good.prepare(txn.XID(cluster, idOf(n+1), 1))
			sleep(t.Context(), 6*time.Second+10*time.Millisecond)
			if good.preparedCount() != 0 {
				t.Fatal("still prepared after a sweep's time")
			}
		}
		if h := r.Health("hung7"); h.Healthy || !strings.Contains(h.LastError, "no answer within 10s") {
			t.Errorf("health: %+v", h)
		}
		// A participant that is removed is not swept any more, and forgotten.
		log.mu.Lock()
		for n := range 40 {
			delete(log.parts, fmt.Sprintf("hung%d", n))
		}
		log.mu.Unlock()
		sleep(t.Context(), 30*time.Second)
		r.mu.Lock()
		defer r.mu.Unlock()
		if len(r.lanes) != 1 {
			t.Errorf("%d lanes, want that of the one participant left", len(r.lanes))
		}
	})
}

// TestSweepIsASignOfLife: the breaker of an idle participant is probed as soon
// as a scan has succeeded.
func TestSweepIsASignOfLife(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := newLog()
		res := newParticipant(log, "a")
		res.setFault(always(fail))
		r := begin(t, Config{BreakerMax: time.Hour, BackoffMax: time.Second}, log)
		for n := range 20 {
			log.put(idOf(n+1), txn.Committing, "a")
			r.Add(idOf(n + 1))
		}
		sleep(t.Context(), 10*time.Hour)
		res.setFault(nil)
		if _, err := r.Sweep(t.Context(), "a", true); err != nil {
			t.Fatal(err)
		}
		within(t, 2*time.Second, "all", log.allDone)
	})
}

// TestASweepLetsAProbeThrough: a sweep never holds the breaker's probe for
// longer than a call of its own. A sweep whose scan fails keeps no call out, and one whose
// call was the probe and was given up releases the probe.
func TestASweepLetsAProbeThrough(t *testing.T) {
	opened := func(t *testing.T, log *fakeLog, res *fakeParticipant, cfg Config) *Recovery {
		res.setFault(always(fail))
		r := begin(t, cfg, log)
		for n := range 5 {
			log.put(idOf(n+1), txn.Committing, "a")
			r.Add(idOf(n + 1))
		}
		eventually(t, "the breaker opens", func() bool {
			r.mu.Lock()
			defer r.mu.Unlock()
			return !r.laneLocked("a").br.closed()
		})
		return r
	}
	t.Run("stuck at a question", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			log := newLog()
			res := newParticipant(log, "a")
			log.parts["a"] = hungLister{res}
			r := opened(t, log, res, Config{BreakerMax: time.Second, BackoffMax: time.Second, CallTimeout: time.Hour})
			done := make(chan struct{})
			go func() {
				defer close(done)
				if _, err := r.Sweep(t.Context(), "a", true); err == nil {
					t.Error("the sweep could look")
				}
			}()
			sleep(t.Context(), time.Minute)
			res.setFault(nil)
			within(t, 5*time.Second, "all, beside the sweep", log.allDone)
			r.Stop()
			<-done
		})
	})
	t.Run("given up while its call is the probe", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			log := newLog()
			res := newParticipant(log, "a")
			r := opened(t, log, res, Config{BreakerMax: time.Second, BackoffMax: time.Hour, CallTimeout: time.Hour})
			sleep(t.Context(), 24*time.Hour) // the next call is the probe, and none of the retries is due
			res.setFault(always(hang))
			res.mu.Lock()
			res.prepared = map[string]bool{txn.XID(cluster, idOf(100), 1): true} // the sweep would have the others tried at once
			res.mu.Unlock()
			ctx, cancel := contextWithTimeout(t, 3*time.Second)
			defer cancel()
			if fs, err := r.Sweep(ctx, "a", true); err != nil || len(fs) != 1 || fs[0].Done {
				t.Fatalf("%+v, %v", fs, err)
			}
			last := res.made()[len(res.made())-1]
			r.mu.Lock()
			open := !r.laneLocked("a").br.closed()
			r.mu.Unlock()
			if last.verb != Rollback || !open {
				t.Fatalf("the last call was %v, the breaker is open: %v", last.verb, open)
			}
			res.setFault(nil)
			for n := range 5 {
				res.prepare(txn.XID(cluster, idOf(n+1), 1))
			}
			within(t, 2*time.Hour, "all, after the sweep", log.allDone)
		})
	})
}
