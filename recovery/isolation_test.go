package recovery

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/txmgr/txmgr/txn"
)

// TestOneHungParticipantAndTenThousandExpiriesOnAnother: the same 10,000
// transactions expire that have a branch at both. The one participant accepts and
// never answers: calls, sweeps, anything. The other's locks are free in 1.2 times
// the time that it takes when neither hangs.
func TestOneHungParticipantAndTenThousandExpiriesOnAnother(t *testing.T) {
	const n = 10_000
	expire := func(t *testing.T, hung bool) (took time.Duration) {
		synctest.Test(t, func(t *testing.T) {
			log := newLog()
			a, b := newParticipant(log, "a"), newParticipant(log, "b")
			a.latency, b.latency = 5*time.Millisecond, 5*time.Millisecond
			if hung {
				a.setFault(always(hang))
				log.parts["a"] = hungLister{a}
			}
			r := begin(t, Config{SweepEvery: 5 * time.Second}, log)
			var ids []txn.ID
			for k := range n {
				names := []string{"b"}
				if hung {
					names = []string{"a", "b"}
				}
				log.put(idOf(k+1), txn.RollingBack, names...).cause = txn.CauseTimeout
				ids = append(ids, idOf(k+1))
			}
			start := time.Now()
			r.Add(ids...)
			for b.preparedCount() > 0 && time.Since(start) < time.Hour {
				sleep(t.Context(), time.Millisecond)
			}
			took = time.Since(start)
			if len(b.made()) != n || hung && (len(a.made()) == 0 || a.most > r.cfg.Start) {
				t.Errorf("%d calls of the one, %d of the other, %d at once", len(b.made()), len(a.made()), a.most)
			}
		})
		return took
	}
	alone, beside := expire(t, false), expire(t, true)
	t.Logf("10,000 rollbacks: alone %v, beside a hung participant %v", alone, beside)
	if beside > alone*12/10 {
		t.Errorf("beside a hung participant %v, alone %v", beside, alone)
	}
}

// TestSweepRacingWithALivePrepare runs every interleaving of two sweeps with the
// whole life of one transaction, of every kind, step by step: a live transaction is
// never touched, and one that is prepared too late is gone after the next sweep.
func TestSweepRacingWithALivePrepare(t *testing.T) {
	const steps, moments = 6, 8 // steps of an application; moments at which it may get ahead of a sweep
	runs, acted := 0, 0
	var place func(script []int, from, left int)
	run := func(script []int) {
		for c := commits; c <= forgotten; c++ {
			w := &world{apps: []*app{{id: idOf(1), course: c}}}
			for _, k := range script {
				w.script = append(w.script, make([]int, k))
			}
			r := New(Config{Cluster: cluster, SweepEvery: -1, Rand: func() float64 { return 0.5 }}, w)
			r.Start()
			for range 2 {
				if _, err := r.Sweep(t.Context(), "w", true); err != nil {
					t.Fatal(err)
				}
			}
			for range steps {
				w.apps[0].advance()
			}
			if _, err := r.Sweep(t.Context(), "w", true); err != nil {
				t.Fatal(err)
			}
			r.Stop()
			for _, wrong := range w.wrong {
				t.Errorf("steps %v, course %d: %s", script, c, wrong)
			}
			if w.apps[0].prepared {
				t.Errorf("steps %v, course %d: prepared for ever", script, c)
			}
			runs++
			acted += w.acted
		}
	}
	place = func(script []int, from, left int) {
		if from == moments {
			run(script)
			return
		}
		for k := range left + 1 {
			script[from] = k
			place(script, from+1, left-k)
		}
		script[from] = 0
	}
	place(make([]int, moments), 0, steps)
	t.Logf("%d runs, %d calls", runs, acted)
	if runs < 10_000 || acted < 1000 {
		t.Error("too little happened to mean anything")
	}
}
