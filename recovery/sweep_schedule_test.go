package recovery

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/txmgr/txmgr/txn"
)

// TestProbes: the health of a participant without transactions is known,
// since when, and how long the probe took; without secrets.
func TestProbes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := newLog()
		res := newParticipant(log, "a")
		res.setCheck(30*time.Millisecond, nil)
		start := time.Now()
		r := begin(t, Config{SweepEvery: 5 * time.Second}, log)
		if h := r.Health("a"); !h.Healthy || !h.Since.IsZero() || h.Took != 0 {
			t.Errorf("before anything was heard: %+v", h)
		}
		sleep(t.Context(), 6*time.Second)
		well := r.Health("a")
		if !well.Healthy || well.Since.Before(start) || well.Took != 30*time.Millisecond || well.LastError != "" {
			t.Errorf("after a probe: %+v", well)
		}
		sleep(t.Context(), 10*time.Minute)
		if h := r.Health("a"); h != well {
			t.Errorf("after many probes: %+v, want %+v", h, well)
		}
		checks := res.checked()
		for i, at := range checks[1:] {
			if d := at.Sub(checks[i]); d != 15*time.Second {
				t.Errorf("probe %d comes %v after the one before, want 15s", i+1, d)
			}
		}
		if n := len(checks); n < 39 {
			t.Errorf("%d probes in ten minutes", n)
		}

		res.setCheck(50*time.Millisecond, errors.New("the server is a standby, password=hunter2"))
		sleep(t.Context(), 16*time.Second)
		ill := r.Health("a")
		if ill.Healthy || !ill.Since.After(well.Since) || ill.Took != 50*time.Millisecond || ill.LastError != "check: the server is a standby, password=***" {
			t.Errorf("when it cannot take part: %+v", ill)
		}
		before := len(res.checked())
		sleep(t.Context(), time.Minute)
		if h := r.Health("a"); h != ill {
			t.Errorf("a minute later: %+v, want %+v", h, ill)
		}
		if n := len(res.checked()) - before; n < 11 || n > 13 {
			t.Errorf("%d probes in a minute of one that cannot take part, want one in each visit", n)
		}
		res.setCheck(0, nil)
		sleep(t.Context(), 6*time.Second)
		if h := r.Health("a"); !h.Healthy || !h.Since.After(ill.Since) || h.LastError != "" {
			t.Errorf("when it can again: %+v", h)
		}
	})
}

// TestNoProbeAfterAnAnswer: a participant with recent contact is not probed.
func TestNoProbeAfterAnAnswer(t *testing.T) {
	for _, failing := range []bool{false, true} {
		t.Run(fmt.Sprintf("failing=%v", failing), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				log := newLog()
				res := newParticipant(log, "a")
				if failing {
					res.setFault(always(fail))
				}
				r := begin(t, Config{SweepEvery: 5 * time.Second, BackoffMax: time.Second}, log)
				work := func(n int) {
					log.put(idOf(n), txn.Committing, "a")
					r.Add(idOf(n))
				}
				work(1)
				synctest.Wait()
				for n := range 60 {
					sleep(t.Context(), 5*time.Second)
					work(n + 2)
				}
				if n := len(res.checked()); n != 0 {
					t.Errorf("probed %d times", n)
				}
				if h := r.Health("a"); h.Healthy == failing || h.Since.IsZero() {
					t.Errorf("health: %+v", h)
				}
				res.setFault(nil)
				sleep(t.Context(), time.Minute)
				if n := len(res.checked()); n < 3 {
					t.Errorf("probed %d times in a minute of silence", n)
				}
			})
		})
	}
}

// TestHungProbes: participants that do not answer cost as many probes as may be under
// way, delay no visit of others, and end with the leadership.
func TestHungProbes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := newLog()
		good := newParticipant(log, "good")
		var hung []*fakeParticipant
		for n := range 2 * maxProbes {
			res := newParticipant(log, fmt.Sprintf("hung%02d", n))
			res.setCheck(-1, nil)
			hung = append(hung, res)
		}
		r := begin(t, Config{SweepEvery: 5 * time.Second}, log)
		most := 0
		for n := range 120 {
			sleep(t.Context(), 500*time.Millisecond)
			most = max(most, len(r.visits.probing))
			if n%20 == 19 {
				good.prepare(txn.XID(cluster, idOf(n), 1))
			} else if n%20 == 18 && good.preparedCount() != 0 {
				t.Errorf("after %v: not swept", time.Duration(n)*500*time.Millisecond)
			}
		}
		if most != maxProbes {
			t.Errorf("%d probes at once, want %d", most, maxProbes)
		}
		sleep(t.Context(), 5*time.Minute)
		ill := 0
		for n, res := range hung {
			h := r.Health(fmt.Sprintf("hung%02d", n))
			if !h.Healthy && h.LastError == "check: no answer within 10s: context deadline exceeded" && h.Took == 10*time.Second && len(res.checked()) > 1 {
				ill++
			}
		}
		if ill != len(hung) || !r.Health("good").Healthy {
			t.Errorf("%d of %d are known to hang; good: %+v", ill, len(hung), r.Health("good"))
		}
		start := time.Now()
		r.Stop()
		if took := time.Since(start); took != 0 {
			t.Errorf("Stop took %v", took)
		}
	})
}

// TestRounds: each participant has one visit in every turn of the belt, also one that is
// registered later; none that is not registered any more, or while recovery is paused.
func TestRounds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := newLog()
		sick := errors.New("read-only")
		res := []*fakeParticipant{newParticipant(log, "a"), newParticipant(log, "b")}
		log.with(func() { log.held = true })
		r := begin(t, Config{SweepEvery: 5 * time.Second}, log)
		for _, p := range res {
			p.setCheck(0, sick) // so that every visit shows
		}
		sleep(t.Context(), time.Minute+300*time.Millisecond) // and so nothing is done at the very moment of a rotation
		if n := len(res[0].checked()) + len(res[1].checked()); n != 0 {
			t.Errorf("%d probes while held", n)
		}
		log.with(func() { log.held = false })
		sleep(t.Context(), time.Minute)
		var late *fakeParticipant
		log.with(func() { late = newParticipant(log, "late") })
		late.setCheck(0, sick)
		added := time.Now()
		sleep(t.Context(), time.Minute)
		for i, p := range append(slices.Clone(res), late) {
			at := p.checked()
			for k := range at[1:] {
				if d := at[k+1].Sub(at[k]); d != 5*time.Second {
					t.Errorf("participant %d: visit %d comes %v after the one before", i, k+1, d)
				}
			}
		}
		if at := late.checked(); len(at) < 11 || at[0].Sub(added) > 6*time.Second {
			t.Errorf("registered later: %d visits, the first after %v", len(at), at[0].Sub(added))
		}
		log.with(func() { delete(log.parts, "late") })
		sleep(t.Context(), 2*time.Second)
		n := len(late.checked())
		sleep(t.Context(), time.Minute)
		if m := len(late.checked()); m != n {
			t.Errorf("%d visits after it was removed", m-n)
		}
		if h := r.Health("late"); !h.Healthy || !h.Since.IsZero() {
			t.Errorf("it is remembered: %+v", h)
		}
		late.setCheck(-1, nil)
		log.with(func() { log.parts["late"] = late })
		sleep(t.Context(), 6*time.Second)
		if m := len(late.checked()); m != n+1 {
			t.Fatalf("registered again: %d visits, want 1", m-n)
		}
		log.with(func() { delete(log.parts, "late") })
		sleep(t.Context(), 2*time.Second)
		if n := len(r.visits.probing); n != 0 {
			t.Errorf("a probe of one that is gone goes on")
		}
	})
}
