package proposal

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/txmgr/txmgr/txn"
	"github.com/txmgr/txmgr/txn/machine"
)

// asyncAnswers are the answers to callers without a goroutine, in their order.
type asyncAnswers struct {
	mu     sync.Mutex
	done   int // how often onDone was called
	states []txn.State
	errs   []error
}

func (a *asyncAnswers) get() (done int, states []txn.State, errs []error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.done, slices.Clone(a.states), slices.Clone(a.errs)
}

func (a *asyncAnswers) propose(ctx context.Context, q *Queue) {
	done := func() {
		a.mu.Lock()
		defer a.mu.Unlock()
		a.done++
	}
	q.ProposeAsync(ctx, 0, machine.Commit{}, done, func(r machine.Result, err error) {
		a.mu.Lock()
		defer a.mu.Unlock()
		a.states, a.errs = append(a.states, r.State), append(a.errs, err)
	})
}

// TestAsyncAnswersFollowTheEntry: callers without a goroutine are answered when their entry is
// applied and not before, each with its own result, in the order of the batch.
func TestAsyncAnswersFollowTheEntry(t *testing.T) {
	q := newTestQueue()
	var a asyncAnswers
	a.propose(t.Context(), q)
	a.propose(t.Context(), q)
	b := q.next()
	if done, states, errs := a.get(); done != 0 || len(errs) != 0 {
		t.Fatalf("answered before the entry was applied: %v, %v", states, errs)
	}
	q.complete(b, []machine.Result{{State: txn.Committed}, {State: txn.RolledBack}}, nil)
	if done, states, errs := a.get(); !slices.Equal(states, []txn.State{txn.Committed, txn.RolledBack}) || done != 2 || errors.Join(errs...) != nil {
		t.Errorf("answers %v, %v, %d are done; want committed and rolled back", states, errs, done)
	}

	var late asyncAnswers
	late.propose(t.Context(), q)
	q.SetTerm(0)
	late.propose(t.Context(), q)
	if done, _, errs := late.get(); len(errs) != 2 || !errors.Is(errs[0], txn.ErrUnavailable) || !errors.Is(errs[1], txn.ErrUnavailable) || done != 2 {
		t.Errorf("in the queue at the end of the term, and after it: %v, %d are done; want unavailable twice", errs, done)
	}
	if n := q.stats.pending.Load(); n != 0 {
		t.Errorf("%d wait for an answer", n)
	}
}

// TestAsyncContextEnds: a caller without a goroutine whose context ends is in doubt, whether its
// command is in the queue or in flight, at most 10 ms later and never earlier. Its command goes on:
// onDone tells when it has ended. Then nothing is looked at any more.
func TestAsyncContextEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newTestQueue()
		const timeout = 3*time.Second + 123*time.Microsecond
		var flying, queued, other asyncAnswers
		short, cancel := context.WithTimeout(t.Context(), timeout)
		defer cancel()
		flying.propose(short, q)
		b := q.next()
		queued.propose(short, q)
		other.propose(t.Context(), q)

		<-time.After(timeout - time.Nanosecond)
		synctest.Wait()
		for name, a := range map[string]*asyncAnswers{"in flight": &flying, "in the queue": &queued} {
			if _, _, errs := a.get(); len(errs) != 0 {
				t.Errorf("%s: answered before the context has ended: %v", name, errs)
			}
		}
		<-time.After(sweepInterval + time.Nanosecond)
		synctest.Wait()
		for name, a := range map[string]*asyncAnswers{"in flight": &flying, "in the queue": &queued} {
			if done, _, errs := a.get(); len(errs) != 1 || !errors.Is(errs[0], txn.ErrInDoubt) || !strings.Contains(errs[0].Error(), "deadline exceeded while the command was on its way") || done != 0 {
				t.Errorf("%s: %v, %d are done; want in doubt", name, errs, done)
			}
		}
		if _, _, errs := other.get(); len(errs) != 0 {
			t.Errorf("whose context goes on: %v", errs)
		}

		q.complete(b, make([]machine.Result, 1), nil)
		b = q.next()
		q.complete(b, make([]machine.Result, 2), nil)
		for name, a := range map[string]*asyncAnswers{"in flight": &flying, "in the queue": &queued, "whose context goes on": &other} {
			if done, _, errs := a.get(); len(errs) != 1 || done != 1 {
				t.Errorf("%s: %d answers, %d are done; want one", name, len(errs), done)
			}
		}
		<-time.After(sweepInterval)
		synctest.Wait()
		q.mu.Lock()
		defer q.mu.Unlock()
		if q.sweeping {
			t.Error("the queue goes on looking at contexts when no caller is left")
		}
	})
}
