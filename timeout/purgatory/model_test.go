package purgatory_test

import (
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/txmgr/txmgr/timeout/purgatory"
)

// step is one operation on a purgatory and on its model.
type step struct {
	what    string
	keys    []int
	request int // which one, of those that were parked, modulo their number
	timeout time.Duration
	flag    bool
}

// model does slowly the work of a purgatory: it keeps all requests in a list.
type model struct {
	requests []*modelRequest
	stopped  bool
}

type modelRequest struct {
	keys     []int
	ready    bool
	deadline time.Time
	outcome  purgatory.Outcome
}

func (w *model) end(how purgatory.Outcome, which func(*modelRequest) bool) (n int) {
	for _, r := range w.requests {
		if r.outcome == 0 && which(r) {
			r.outcome = how
			n++
		}
	}
	return n
}

var operations = []string{"park", "park", "park", "ready", "check", "check", "check all", "cancel", "pass", "stop"}

var steps = rapid.Custom(func(t *rapid.T) step {
	return step{
		what:    rapid.SampledFrom(operations).Draw(t, "what"),
		keys:    rapid.SliceOfN(rapid.IntRange(0, 4), 1, 4).Draw(t, "keys"),
		request: rapid.IntRange(0, 1000).Draw(t, "request"),
		timeout: time.Duration(rapid.SampledFrom([]int{-1, 0, 1, 2, 3, 10, 100, 10_000, 1_000_000}).Draw(t, "ticks")) * tick,
		flag:    rapid.IntRange(0, 3).Draw(t, "one in four") == 0,
	}
})

// Random histories, one operation at a time, end every request as the model does.
func TestModel(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		history := rapid.SliceOfN(steps, 1, 60).Draw(rt, "history")
		var err error
		synctest.Test(t, func(*testing.T) { err = replay(history) })
		if err != nil {
			rt.Fatal(err)
		}
	})
}

func replay(history []step) error {
	p, err := purgatory.Start[int](purgatory.Config{Tick: tick})
	if err != nil {
		return err
	}
	defer p.Stop()
	w := &model{}
	var spies []*spy
	var handles []*purgatory.Parked
	for n, s := range history {
		want, got := 0, 0
		switch s.what {
		case "park":
			q, r := &spy{}, &modelRequest{keys: s.keys, ready: s.flag, deadline: time.Now().Add(s.timeout)}
			q.ready.Store(s.flag)
			h, err := p.Park(q, s.timeout, s.keys...)
			if (err != nil) != w.stopped {
				return fmt.Errorf("step %d: Park answered %v", n, err)
			}
			if w.stopped {
				break
			}
			spies, handles, w.requests = append(spies, q), append(handles, h), append(w.requests, r)
			switch {
			case r.ready:
				r.outcome = purgatory.Satisfied
			case s.timeout <= 0:
				r.outcome = purgatory.Expired
			}
		case "ready":
			if len(spies) > 0 {
				spies[s.request%len(spies)].ready.Store(true)
				w.requests[s.request%len(spies)].ready = true
			}
		case "check":
			got = p.Check(s.keys[0])
			want = w.end(purgatory.Satisfied, func(r *modelRequest) bool { return r.ready && slices.Contains(r.keys, s.keys[0]) })
		case "check all":
			got = p.CheckAll()
			want = w.end(purgatory.Satisfied, func(r *modelRequest) bool { return r.ready })
		case "cancel":
			if len(spies) > 0 {
				handles[s.request%len(spies)].Cancel()
				chosen := w.requests[s.request%len(spies)]
				w.end(purgatory.Cancelled, func(r *modelRequest) bool { return r == chosen })
			}
		case "pass":
			<-time.After(max(s.timeout, 1))
			<-time.After(tick) // a deadline is kept up to a tick late
			synctest.Wait()
			w.end(purgatory.Expired, func(r *modelRequest) bool { return !r.deadline.After(time.Now().Add(-tick)) })
			w.allowed(spies)
		case "stop":
			if s.flag {
				p.Stop()
				w.stopped = true
				w.end(purgatory.Stopped, func(*modelRequest) bool { return true })
			}
		}
		if got != want {
			return fmt.Errorf("step %d: %s %v completed %d, want %d", n, s.what, s.keys, got, want)
		}
		if err := compare(p, w, spies, handles); err != nil {
			return fmt.Errorf("step %d: %s: %w", n, s.what, err)
		}
	}
	return nil
}

// allowed follows the purgatory where it has a choice: a deadline that has passed less than a tick ago.
func (w *model) allowed(spies []*spy) {
	for n, r := range w.requests {
		outcomes, _ := spies[n].seen()
		if r.outcome == 0 && !r.deadline.After(time.Now()) && slices.Equal(outcomes, []purgatory.Outcome{purgatory.Expired}) {
			r.outcome = purgatory.Expired
		}
	}
}

func compare(p *purgatory.Purgatory[int], w *model, spies []*spy, handles []*purgatory.Parked) error {
	parked := 0
	for n, r := range w.requests {
		var want []purgatory.Outcome
		if r.outcome != 0 {
			want = append(want, r.outcome)
		} else {
			parked++
		}
		got, faults := spies[n].seen()
		if !slices.Equal(got, want) {
			return fmt.Errorf("request %d has ended with %v, want %v", n, got, want)
		}
		if len(faults) > 0 {
			return fmt.Errorf("request %d: %s", n, faults[0])
		}
		if handles[n].Done() != (r.outcome != 0) {
			return fmt.Errorf("the handle of request %d says done: %v", n, handles[n].Done())
		}
	}
	if p.Len() != parked {
		return fmt.Errorf("%d are parked, want %d", p.Len(), parked)
	}
	return nil
}
