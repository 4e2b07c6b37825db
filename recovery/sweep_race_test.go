package recovery

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/txmgr/txmgr/participant"
	"github.com/txmgr/txmgr/recovery/plan"
	"github.com/txmgr/txmgr/txn"
	"pgregory.net/rapid"
)

// hungLister accepts the list call, and never answers.
type hungLister struct{ participant.Participant }

func (hungLister) Prepared(ctx context.Context, _ string) ([]participant.Prepared, error) {
	<-ctx.Done()
	return nil, ctx.Err()
}

func contextWithTimeout(t *testing.T, d time.Duration) (context.Context, context.CancelFunc) {
	return context.WithTimeout(t.Context(), d)
}

// world is a log and one participant, live: between any two actions of a sweep
// the applications get ahead by some steps of a script. Begin and enlist are
// logged before a prepare; phase two is the applications' own. The world checks
// every call that the sweep makes against the truth at that moment.
type world struct {
	mu     sync.Mutex
	script [][]int // which applications take a step at each interruption
	at     int
	apps   []*app
	wrong  []string
	acted  int
}

// app is one transaction of one branch and its progress.
type app struct {
	id       txn.ID
	course   course
	step     int
	state    txn.State // in the log; zero: not begun, or forgotten
	prepared bool
	finished bool // the branch, in the log
	doomed   bool // decided to roll back, also after it was forgotten
}

type course uint8

const (
	commits     course = iota // begin, prepare, decide, commit, ack, forget
	rollsBack                 // begin, prepare, decide, roll back, ack, forget
	preparesNow               // begin, roll back, ack, prepare late, forget
	forgotten                 // begin, roll back, ack, forget, prepare late
)

func (a *app) xid() string { return txn.XID(cluster, a.id, 1) }

// advance makes the application's next step.
func (a *app) advance() {
	plans := [][]func(*app){
		commits:     {begun, prepares, decides, phaseTwo, acks, forgets},
		rollsBack:   {begun, prepares, decides, phaseTwo, acks, forgets},
		preparesNow: {begun, decides, acks, prepares, forgets},
		forgotten:   {begun, decides, acks, forgets, prepares},
	}
	if plan := plans[a.course]; a.step < len(plan) {
		plan[a.step](a)
		a.step++
	}
}

func begun(a *app)    { a.state = txn.Active }
func prepares(a *app) { a.prepared = true }
func phaseTwo(a *app) { a.prepared = false }
func forgets(a *app)  { a.state = 0 }

func decides(a *app) {
	a.state, a.doomed = txn.RollingBack, true
	if a.course == commits {
		a.state, a.doomed = txn.Committing, false
	}
}

func acks(a *app) {
	a.finished = true
	a.state++ // committing to committed, rolling back to rolled back
}

// interrupt makes the applications take their steps.
func (w *world) interrupt() {
	if w.at < len(w.script) {
		for _, i := range w.script[w.at] {
			w.apps[i%len(w.apps)].advance()
		}
	}
	w.at++
}

// between runs something at one moment, with applications before and after it.
func (w *world) between(do func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.interrupt()
	do()
	w.interrupt()
}

func (w *world) Prepared(context.Context, string) (list []participant.Prepared, _ error) {
	w.between(func() {
		for _, a := range w.apps {
			if a.prepared {
				list = append(list, participant.Prepared{XID: a.xid()})
			}
		}
	})
	return list, nil
}

func (w *world) Lookup(_ context.Context, keys []plan.Key) (known []plan.BranchStatus, _ error) {
	w.between(func() {
		for _, k := range keys {
			a := w.app(k.TX)
			known = append(known, plan.BranchStatus{State: a.state, Unfinished: !a.finished, Branch: participant.Branch{ID: 1}})
		}
	})
	return known, nil
}

func (w *world) app(id txn.ID) *app {
	return w.apps[slices.IndexFunc(w.apps, func(a *app) bool { return a.id == id })]
}

func (w *world) Rollback(_ context.Context, b participant.Branch) (participant.Result, error) {
	w.between(func() {
		a := w.app(b.TX)
		w.acted++
		switch {
		case !a.doomed:
			w.wrong = append(w.wrong, fmt.Sprintf("rolled back %v, a live transaction in state %v after %d steps", b.TX, a.state, a.step))
		case !a.prepared:
			w.wrong = append(w.wrong, fmt.Sprintf("rolled back %v, which was not prepared any more", b.TX))
		}
		a.prepared = false
	})
	return participant.Result{Outcome: participant.RolledBack}, nil
}

func (w *world) Commit(_ context.Context, b participant.Branch) (participant.Result, error) {
	w.between(func() {
		w.wrong = append(w.wrong, fmt.Sprintf("committed %v, which was none of the sweep's business", b.TX))
	})
	return participant.Result{Outcome: participant.Committed}, nil
}

func (w *world) Pending(txn.ID) (plan.PendingTx, bool)                     { return plan.PendingTx{}, false }
func (w *world) Report(context.Context, txn.ID, []plan.BranchResult) error { return nil }
func (w *world) RecoveryPaused() bool                                      { return false }
func (w *world) Participants() []string                                    { return nil }
func (w *world) Check(context.Context) error                               { return nil }
func (w *world) Close() error                                              { return nil }
func (w *world) Participant(context.Context, string) (participant.Participant, error) {
	return w, nil
}

// TestSweepRaces interleaves sweeps with live applications at random: nothing
// live is ever touched, nothing that ended by itself is acted on, and a branch that was
// prepared too late is gone in the end.
func TestSweepRaces(t *testing.T) {
	runs, acted := 0, 0
	rapid.Check(t, func(rt *rapid.T) {
		w := &world{}
		for i := range rapid.IntRange(1, 6).Draw(rt, "applications") {
			w.apps = append(w.apps, &app{
				id:     idOf(i + 1),
				course: course(rapid.IntRange(int(commits), int(forgotten)).Draw(rt, "course")),
				step:   0,
			})
		}
		steps := rapid.SliceOfN(rapid.IntRange(0, 5), 0, 8)
		w.script = rapid.SliceOfN(steps, 0, 30).Draw(rt, "script")
		r := New(Config{Cluster: cluster, SweepEvery: -1, Rand: func() float64 { return 0.5 }}, w)
		r.Start()
		defer r.Stop()
		sweep := func() {
			if _, err := r.Sweep(t.Context(), "w", true); err != nil {
				rt.Fatal(err)
			}
		}
		for w.at < len(w.script) {
			sweep()
		}
		for _, a := range w.apps {
			for range 6 {
				a.advance()
			}
		}
		sweep()
		for _, wrong := range w.wrong {
			rt.Error(wrong)
		}
		for _, a := range w.apps {
			if a.prepared {
				rt.Errorf("%v (course %d) is prepared for ever", a.id, a.course)
			}
		}
		runs++
		acted += w.acted
	})
	if acted < runs/2 {
		t.Errorf("the sweeps acted %d times in %d runs: too little to mean anything", acted, runs)
	}
}
