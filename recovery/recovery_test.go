package recovery

import (
	"context"
	"fmt"
	"runtime"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/txmgr/txmgr/participant"
	"github.com/txmgr/txmgr/recovery/plan"
	"github.com/txmgr/txmgr/recovery/queue"
	"github.com/txmgr/txmgr/txn"
)

// TestGrace: a client that completes its own branches is left alone for the
// grace, whichever way its transaction came here, and driven after it.
func TestGrace(t *testing.T) {
	for _, c := range []struct {
		name string
		add  func(*Recovery, txn.ID)
	}{
		{"handoff", func(r *Recovery, id txn.ID) { r.DeferToClient(id) }},
		{"add", func(r *Recovery, id txn.ID) { r.Add(id) }},
		{"both, repeatedly", func(r *Recovery, id txn.ID) { r.DeferToClient(id); r.Add(id, id); r.Add(id) }},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				log := newLog()
				res := newParticipant(log, "a")
				r := begin(t, Config{ClientGrace: 2 * time.Second}, log)
				start, done, hung := time.Now(), idOf(1), idOf(2)
				for _, id := range []txn.ID{done, hung} {
					log.putOwn(id, txn.Committing, 0, "a")
					c.add(r, id)
				}
				sleep(t.Context(), time.Second)
				if as := r.RetryStates(hung); len(as) != 1 || as[0].WaitReason != plan.ClientGrace || as[0].Count != 0 {
					t.Errorf("during the grace: %+v", as)
				}
				log.ack(done)
				within(t, time.Minute, "the hung one", log.allDone)
				calls := res.made()
				if len(calls) != 1 || calls[0].branch.TX != hung {
					t.Fatalf("calls: %+v", calls)
				}
				if waited := calls[0].at.Sub(start); waited < 2*time.Second || waited > 2*time.Second+queue.GraceWindow {
					t.Errorf("left alone for %v, want 2s", waited)
				}
				synctest.Wait()
				wantEmpty(t, r)
			})
		})
	}
}

// TestHandoffIsCheap: for the ordinary commit the log is read once, nothing is
// kept but the id, and no participant is called.
func TestHandoffIsCheap(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := newLog()
		res := newParticipant(log, "a")
		r := begin(t, Config{}, log)
		for n := range 10_000 {
			log.putOwn(idOf(n+1), txn.Committing, 0, "a")
			r.DeferToClient(idOf(n + 1))
			log.ack(idOf(n + 1))
		}
		if tasks, tries, _, _ := r.empty(); tasks+tries != 0 {
			t.Errorf("%d tasks and %d tries during the grace", tasks, tries)
		}
		sleep(t.Context(), 5*time.Second)
		if n := len(res.made()); n != 0 || log.asked() != 10_000 {
			t.Errorf("%d calls, and asked the log %d times; want 0 and 10,000", n, log.asked())
		}
		wantEmpty(t, r)
	})
}

func TestGraceWaived(t *testing.T) {
	for _, c := range []struct {
		name  string
		cfg   Config
		state txn.State
		cause txn.Cause
		retry bool
	}{
		{"by retry", Config{}, txn.Committing, 0, true},
		{"by configuration", Config{ClientGrace: -1}, txn.Committing, 0, false},
		{"by a timeout", Config{}, txn.RollingBack, txn.CauseTimeout, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				log := newLog()
				newParticipant(log, "a")
				r := begin(t, c.cfg, log)
				log.putOwn(idOf(1), c.state, c.cause, "a")
				r.Add(idOf(1))
				if c.retry {
					synctest.Wait()
					r.Retry(idOf(1))
				}
				within(t, 10*time.Millisecond, "commit", log.allDone)
			})
		})
	}
}

func TestStopDuringCalls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := newLog()
		res := newParticipant(log, "a")
		res.setFault(always(hang))
		log.delay = time.Hour
		slow := newParticipant(log, "b")
		r := begin(t, Config{SweepEvery: time.Second}, log)
		for n := range 100 {
			log.put(idOf(n+1), txn.Committing, "a", "b")
			r.Add(idOf(n + 1))
		}
		res.prepare(txn.XID(cluster, idOf(1000), 1)) // work for a sweep that gets no worker
		sleep(t.Context(), 5*time.Second)
		if len(res.made()) != r.cfg.Start || len(slow.made()) == 0 || log.told() == 0 {
			t.Fatalf("%d hung calls, %d others, %d reports: not in the middle of it",
				len(res.made()), len(slow.made()), log.told())
		}
		start := time.Now()
		r.Stop()
		if took := time.Since(start); took != 0 {
			t.Errorf("Stop took %v", took)
		}
		if res.running+slow.running != 0 {
			t.Errorf("%d calls still run", res.running+slow.running)
		}
		before, asked := len(res.made())+len(slow.made()), log.asked()
		r.Add(idOf(1))
		r.DeferToClient(idOf(1))
		r.Start()
		if _, err := r.Sweep(t.Context(), "a", true); err == nil {
			t.Error("swept after Stop")
		}
		sleep(t.Context(), time.Minute)
		if after := len(res.made()) + len(slow.made()); after != before || log.asked() != asked {
			t.Errorf("%d calls and %d questions after Stop", after-before, log.asked()-asked)
		}
		r.Stop()
	})
}

// TestStartStopStress runs everything at once against everything that can stop
// it; the race detector and goleak check it.
func TestStartStopStress(t *testing.T) {
	for round := range 15 {
		log := newLog()
		for _, name := range []string{"a", "b", "c"} {
			res := newParticipant(log, name)
			res.latency = 10 * time.Microsecond
			chance := seeded(uint64(round))
			res.setFault(func(recordedCall) fault { return fault(chance() * 1.3 * float64(lie)) })
			for n := range 20 {
				res.prepare(txn.XID(cluster, idOf(1000+n), 1))
			}
		}
		for n := range 100 {
			log.put(idOf(n+1), txn.Committing+txn.State(n%2)*2, "a", "b", "c").own = n%3 == 0
		}
		for n := range 50 {
			log.delegate(idOf(101+n), time.Duration(n)*100*time.Microsecond, "a")
		}
		log.parts["b"] = &fakePruner{fakeParticipant: log.parts["b"].(*fakeParticipant), rows: []string{txn.XID(cluster, idOf(1), 2)}}
		log.parts["c"] = &fakeLockInspector{fakeParticipant: log.parts["c"].(*fakeParticipant), held: []participant.PreparedDetails{{Orphaned: true}}}
		r := New(Config{
			Cluster: cluster, ClientGrace: time.Millisecond, CallTimeout: 2 * time.Millisecond, SweepEvery: time.Millisecond,
			BackoffBase: 50 * time.Microsecond, BreakerMax: time.Millisecond, Rand: seeded(uint64(round)),
		}, log)
		log.setRecovery(r)
		var wg sync.WaitGroup
		enough := make(chan struct{})
		for w := range 3 {
			wg.Go(func() {
				for n := range 300 {
					id := idOf(n%150 + 1)
					switch (n + w) % 8 {
					case 0:
						r.Add(id, idOf(n))
					case 1:
						r.DeferToClient(id)
					case 2:
						r.Retry(id)
					case 3:
						r.RetryStates(id)
					case 4:
						r.Health("a")
					case 6:
						r.History(id)
					case 7:
						if n%60 == 7 {
							_, _ = r.InspectLocks(t.Context(), "c")
						}
					case 5:
						if n%60 == 5 {
							_, _ = r.Sweep(t.Context(), "b", n%120 == 5)
						}
					}
					if w == 0 && n == 19*round {
						close(enough)
					}
				}
			})
		}
		r.Start()
		<-enough
		r.Stop()
		wg.Wait()
		r.Stop()
		for name, p := range log.parts {
			if n := p.(interface{ busy() int }).busy(); n != 0 {
				t.Fatalf("round %d: %d calls of %s still run", round, n, name)
			}
		}
	}
}

// largeLog is a log in which any number of transactions is pending: two branches
// each, at participants that cannot be opened. It keeps nothing itself.
type largeLog struct {
	Log
	mu   sync.Mutex
	done bool
}

func (c *largeLog) Pending(id txn.ID) (plan.PendingTx, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return plan.PendingTx{ID: id, State: txn.RollingBack, Branches: []plan.Branch{
		{Participant: "a", Branch: participant.Branch{TX: id, ID: 1}}, {Participant: "b", Branch: participant.Branch{TX: id, ID: 2}},
	}}, !c.done
}

func (c *largeLog) Participant(_ context.Context, name string) (participant.Participant, error) {
	return nil, fmt.Errorf("participant %s is down", name)
}

func heapInUse() int64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.GC()
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// add adds n transactions to r and waits until they are planned.
func (c *largeLog) add(t *testing.T, r *Recovery, n int) {
	t.Helper()
	for k := range n {
		r.Add(idOf(k + 1))
	}
	eventually(t, "all are planned", func() bool {
		r.mu.Lock()
		defer r.mu.Unlock()
		return r.pending.inbox.Len() == 0 && len(r.pending.transactions) == n && len(r.lanes.byName) == 2
	})
}

// TestMemoryOfUndone measures what 200,000 pending transactions cost: their ids
// and branches, no task, no record.
func TestMemoryOfUndone(t *testing.T) {
	const n = 200_000
	log := &largeLog{}
	before := heapInUse()
	r := begin(t, Config{}, log)
	log.add(t, r, n)
	per := (heapInUse() - before) / n
	_, tries, _, queued := r.empty()
	t.Logf("%d undone transactions of two branches: %d bytes each; %d branches queued, %d tried", n, per, queued, tries)
	if per > 160 {
		t.Errorf("%d bytes for each undone transaction", per)
	}
	if tries > 100 || queued < 2*n {
		t.Errorf("%d records, %d branches queued of %d", tries, queued, 2*n)
	}
	runtime.KeepAlive(r)
}

// TestMemoryIsGivenBack: a finished transaction costs nothing, also when others
// finished it while the participant was down.
func TestMemoryIsGivenBack(t *testing.T) {
	const n = 20_000
	log := &largeLog{}
	before := heapInUse()
	r := begin(t, Config{BreakerMax: time.Millisecond, BackoffMax: time.Millisecond, BackoffBase: time.Millisecond}, log)
	log.add(t, r, n)
	log.mu.Lock()
	log.done = true
	log.mu.Unlock()
	eventually(t, "all are forgotten", func() bool {
		tasks, tries, bundles, queued := r.empty()
		return tasks+tries+bundles+queued == 0
	})
	if left := heapInUse() - before; left > 10*n+2*110_000 {
		t.Errorf("%d bytes are left of %d transactions and two pools", left, n)
	}
	restAll(t, r)
	if left := heapInUse() - before; left > 10*n/2 {
		t.Errorf("%d bytes are left of %d transactions", left, n)
	}
	runtime.KeepAlive(r)
}

// restAll closes all pools before their time.
func restAll(t testing.TB, r *Recovery) {
	r.mu.Lock()
	for _, l := range r.lanes.byName {
		if l.workerPool.pool != nil {
			r.closePoolLocked(l)
		}
	}
	r.mu.Unlock()
	eventually(t, "the pools have gone", func() bool {
		r.mu.Lock()
		defer r.mu.Unlock()
		for _, l := range r.lanes.byName {
			if l.workerPool.closing || l.workerPool.pool != nil {
				return false
			}
		}
		return true
	})
}
