package recovery

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/txmgr/txmgr/participant"
	"github.com/txmgr/txmgr/txn"
)

// fakePruner is a participant that keeps a row for every ended branch.
type fakePruner struct {
	*fakeParticipant
	took time.Duration

	mu    sync.Mutex
	rows  []string // in order
	err   error
	hangs bool
	crash bool
	calls []time.Time
}

func (k *fakePruner) Prune(ctx context.Context, limit int, over func(context.Context, []string) ([]bool, error)) (removed int, err error) {
	k.mu.Lock()
	k.calls = append(k.calls, time.Now())
	rows, hangs, fails, crash := slices.Clone(k.rows), k.hangs, k.err, k.crash
	k.mu.Unlock()
	switch {
	case hangs:
		<-ctx.Done()
		return 0, ctx.Err()
	case fails != nil:
		return 0, fails
	case crash:
		panic("nil map")
	}
	if !sleep(ctx, k.took) {
		return 0, ctx.Err()
	}
	var kept []string
	for page := range slices.Chunk(rows, 1000) {
		is, err := over(ctx, page)
		if err != nil {
			return 0, err
		}
		for i, xid := range page {
			if is[i] && removed < limit {
				removed++
			} else {
				kept = append(kept, xid)
			}
		}
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.rows = kept
	return removed, nil
}

func (k *fakePruner) with(do func()) {
	k.mu.Lock()
	defer k.mu.Unlock()
	do()
}

func (k *fakePruner) left() (rows []string, calls int) {
	k.mu.Lock()
	defer k.mu.Unlock()
	return slices.Clone(k.rows), len(k.calls)
}

func newPruner(l *fakeLog, name string) *fakePruner {
	k := &fakePruner{fakeParticipant: newParticipant(l, name)}
	l.parts[name] = k
	return k
}

// TestTidy: a commit record is removed when it will never be needed again, and no other.
func TestTidy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := newLog()
		k := newPruner(log, "a")
		var want []string
		row := func(n int, keep bool) txn.ID {
			id := idOf(n)
			k.rows = append(k.rows, txn.XID(cluster, id, 1))
			if keep {
				want = append(want, txn.XID(cluster, id, 1))
			}
			return id
		}
		put := func(id txn.ID, s txn.State, finished bool, h txn.Heuristic) {
			x := log.put(id, s, "a", "elsewhere")
			x.branches[0].finished, x.branches[0].hazard = finished, h
		}
		put(row(1, true), txn.Active, false, 0)
		put(row(2, true), txn.Preparing, false, 0)
		put(row(3, true), txn.Committing, false, 0)
		put(row(4, true), txn.Committing, true, 0) // of a transaction that is not finished
		put(row(5, true), txn.RollingBack, true, 0)
		put(row(6, false), txn.Committed, true, 0)
		put(row(7, false), txn.RolledBack, true, 0)
		put(row(8, true), txn.Committed, true, txn.HeuristicHazard)
		put(row(9, true), txn.RolledBack, true, txn.HeuristicCommit)
		row(10, false) // forgotten
		foreign := []string{txn.XID("c2", idOf(11), 1), "", "x", strings.ToUpper(txn.XID(cluster, idOf(12), 1)), txn.ClusterPrefix(cluster)}
		k.rows = append(k.rows, foreign...)
		want = append(want, foreign...)

		r := begin(t, Config{SweepEvery: 5 * time.Second}, log)
		sleep(t.Context(), 6*time.Second)
		rows, _ := k.left()
		if diff := cmp.Diff(want, rows); diff != "" {
			t.Errorf("-want +got:\n%s", diff)
		}
		log.with(func() { log.txs[idOf(8)].branches[0].hazard = 0 }) // an operator forgets the heuristic outcome
		sleep(t.Context(), 7*time.Second)
		if rows, _ := k.left(); slices.Contains(rows, txn.XID(cluster, idOf(8), 1)) || len(rows) != len(want)-1 {
			t.Errorf("after the heuristic: %q", rows)
		}
		if h := r.Health("a"); !h.Healthy || h.LastError != "" {
			t.Errorf("%+v", h)
		}
	})
}

// TestTidyNotUnasked: without periodic sweeps nothing is pruned.
func TestTidyNotUnasked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := newLog()
		k := newPruner(log, "a")
		k.rows = []string{txn.XID(cluster, idOf(1), 1)}
		r := begin(t, Config{SweepEvery: -1}, log)
		if _, err := r.Sweep(t.Context(), "a", true); err != nil {
			t.Fatal(err)
		}
		if _, err := r.InspectLocks(t.Context(), "a"); err != nil {
			t.Fatal(err)
		}
		sleep(t.Context(), time.Hour)
		if rows, calls := k.left(); len(rows) != 1 || calls != 0 {
			t.Errorf("%d calls, %q left", calls, rows)
		}
	})
}

// TestTidyWaitsForCalls: while a call that was begun before the client's
// completion report is under way, or its result not recorded, the commit record stays that
// this call may need.
func TestTidyWaitsForCalls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := newLog()
		k := newPruner(log, "a")
		k.latency = 8 * time.Second
		r := begin(t, Config{SweepEvery: time.Second}, log)
		xid := txn.XID(cluster, idOf(1), 1)
		log.put(idOf(1), txn.Committing, "a")
		k.prepare(xid)
		r.Add(idOf(1))
		sleep(t.Context(), 2*time.Second)
		k.with(func() { k.rows = []string{xid} }) // the application commits
		k.fakeParticipant.mu.Lock()
		delete(k.prepared, xid)
		k.ended[xid] = participant.Committed
		k.fakeParticipant.mu.Unlock()
		log.failReports(func(txn.ID, int) error { return errNoLeader })
		log.ack(idOf(1))
		sleep(t.Context(), 5*time.Second) // the call is under way
		if rows, calls := k.left(); len(rows) != 1 || calls < 5 {
			t.Errorf("after %d calls %d rows are left", calls, len(rows))
		}
		sleep(t.Context(), 4*time.Second)
		if rows, _ := k.left(); len(rows) != 0 {
			t.Errorf("%q are left for ever", rows)
		}
	})
}

// TestTidyWaitsForReports: the same while a result waits to be recorded.
func TestTidyWaitsForReports(t *testing.T) {
	log := newLog()
	k := newPruner(log, "a")
	r := begin(t, Config{}, log)
	k.rows = []string{txn.XID(cluster, idOf(1), 1), txn.XID(cluster, idOf(2), 1)}
	r.mu.Lock()
	r.reporter.batches[idOf(1)] = &reportBatch{}
	r.mu.Unlock()
	if _, err := r.visits.scanner.Prune(t.Context(), "a", r.busy); err != nil {
		t.Fatal(err)
	}
	rows, _ := k.left()
	if diff := cmp.Diff([]string{txn.XID(cluster, idOf(1), 1)}, rows); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	r.mu.Lock()
	delete(r.reporter.batches, idOf(1))
	r.mu.Unlock()
}

// TestTidyCatchesUp: 10,000 rows are removed at once; while there are more it goes on, with
// pauses as long as the work, until the next sweep.
func TestTidyCatchesUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := newLog()
		k := newPruner(log, "a")
		for n := range 45_000 {
			k.rows = append(k.rows, txn.XID(cluster, idOf(n+1), 1))
		}
		k.took = 700 * time.Millisecond
		begin(t, Config{SweepEvery: 5 * time.Second, Rand: func() float64 { return 0.5 }}, log)
		sleep(t.Context(), 60*time.Second)
		rows, calls := k.left()
		if len(rows) != 0 || calls < 5 {
			t.Fatalf("%d rows are left after %d calls", len(rows), calls)
		}
		start := k.calls[0]
		for i, want := range []time.Duration{0, 1400, 2800, 4200, 5000, 10000, 15000} {
			if at := k.calls[i].Sub(start); at != want*time.Millisecond {
				t.Errorf("call %d after %v, want %v", i, at, want*time.Millisecond)
			}
		}
	})
}

// TestTidyFails: an error is shown, is not fatal, and prevents no sweep.
func TestTidyFails(t *testing.T) {
	for _, c := range []struct {
		name string
		set  func(*fakePruner, *fakeLog)
		want string
	}{
		{"error", func(k *fakePruner, _ *fakeLog) { k.err = errors.New("table is full, password=hunter2") }, "prune: table is full, password=***"},
		{"panic", func(k *fakePruner, _ *fakeLog) { k.crash = true }, "prune: participant panicked: nil map"},
		{"hangs", func(k *fakePruner, _ *fakeLog) { k.hangs = true }, "prune: no answer within 5s"},
		{"log away", func(_ *fakePruner, l *fakeLog) { l.lookupErr = errNoLeader }, "prune: ask the log about them: not the leader"},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				log := newLog()
				k := newPruner(log, "a")
				k.rows = []string{txn.XID(cluster, idOf(1), 1)}
				k.with(func() { c.set(k, log) })
				r := begin(t, Config{SweepEvery: 5 * time.Second, Rand: func() float64 { return 0.5 }}, log)
				sleep(t.Context(), 30*time.Second)
				if h := r.Health("a"); !h.Healthy || !strings.HasPrefix(h.LastError, c.want) {
					t.Errorf("%+v; want %q", h, c.want)
				}
				if rows, _ := k.left(); len(rows) != 1 {
					t.Errorf("%d rows are left", len(rows))
				}
				log.with(func() { log.lookupErr = nil })
				k.prepare(txn.XID(cluster, idOf(2), 1))
				sleep(t.Context(), 11*time.Second) // 5s of them are for pruning
				if n := k.preparedCount(); n != 0 {
					t.Errorf("%d branches are left: the sweep does not go on", n)
				}
				start := time.Now()
				if _, err := r.Sweep(t.Context(), "a", true); err != nil || time.Since(start) > 5*time.Second {
					t.Errorf("a person's sweep took %v: %v", time.Since(start), err)
				}
				k.with(func() { k.err, k.hangs, k.crash = nil, false, false })
				sleep(t.Context(), 15*time.Second)
				if rows, _ := k.left(); len(rows) != 0 || r.Health("a").LastError != "" {
					t.Errorf("after it healed: %q, %+v", rows, r.Health("a"))
				}
			})
		})
	}
}

// TestTidyOfHungParticipant: a participant that cannot even list is not pruned.
func TestTidyOfHungParticipant(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := newLog()
		k := newPruner(log, "a")
		k.listErr = fmt.Errorf("down: %w", errDown)
		begin(t, Config{SweepEvery: 5 * time.Second}, log)
		sleep(t.Context(), time.Minute)
		if _, calls := k.left(); calls != 0 {
			t.Errorf("%d calls", calls)
		}
	})
}

var _ participant.Pruner = (*fakePruner)(nil)

// closingParticipant cannot be opened any more once it has listed what is prepared.
type closingParticipant struct {
	*fakePruner
	log *closingLog
}

func (p *closingParticipant) Prepared(ctx context.Context, prefix string) ([]participant.Prepared, error) {
	p.log.with(func() { p.log.openErr["a"] = errDown })
	return p.fakePruner.Prepared(ctx, prefix)
}

// closingLog counts how often a participant is opened.
type closingLog struct {
	*fakeLog
	opened atomic.Int32
}

func (l *closingLog) Participant(ctx context.Context, name string) (participant.Participant, error) {
	l.opened.Add(1)
	return l.fakeLog.Participant(ctx, name)
}

// TestPruningDoesNotOpenTwice: a participant that cannot be opened for pruning is left alone
// until its next visit.
func TestPruningDoesNotOpenTwice(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := &closingLog{fakeLog: newLog()}
		k := newPruner(log.fakeLog, "a")
		log.parts["a"] = &closingParticipant{k, log}
		begin(t, Config{SweepEvery: 5 * time.Second, Rand: func() float64 { return 0.5 }}, log)
		sleep(t.Context(), 7*time.Second) // its first visit is after three seconds, and the next after eight
		if n, want := log.opened.Load(), int32(3); n != want {
			t.Errorf("opened %d times, want %d: for the sweep, the probe and the pruning", n, want)
		}
		if _, calls := k.left(); calls != 0 {
			t.Errorf("%d calls to prune", calls)
		}
	})
}
