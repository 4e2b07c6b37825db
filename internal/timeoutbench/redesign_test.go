package timeoutbench

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/txmgr/txmgr/timeout"
	"github.com/txmgr/txmgr/timeout/survival"
)

// TestManagersAgree drives both managers with the same histories: the same transactions time out at
// the same invocation.
func TestManagersAgree(t *testing.T) {
	for seed := range uint64(20) {
		r := rand.New(rand.NewPCG(seed, 0))
		old, redesigned := NewScan(), NewSurvivalManager()
		refs := make(map[uint64]survival.Ref)
		id, total := uint64(0), 0
		for now := range timeout.Tick(200) {
			for range r.IntN(20) {
				id++
				end := now + 1 + timeout.Tick(r.Uint64N(50))
				old.Begin(id, end)
				refs[id] = redesigned.Begin(id, end)
			}
			for range r.IntN(10) {
				k := 1 + r.Uint64N(max(id, 1))
				if a, b := old.End(k, 0), redesigned.End(k, refs[k]); a != b {
					t.Fatalf("seed %d: ending %d: %v and %v", seed, k, a, b)
				}
			}
			a, b := old.Invoke(now), redesigned.Invoke(now)
			slices.Sort(a)
			slices.Sort(b)
			if !slices.Equal(a, b) {
				t.Fatalf("seed %d: invocation %d: %s", seed, now, cmp.Diff(a, b))
			}
			total += len(a)
		}
		if total < 500 {
			t.Fatalf("only %d transactions timed out", total)
		}
	}
}

func TestRedesign(t *testing.T) {
	for name, m := range map[string]func() Manager{"scan": NewScan, "survival": NewSurvivalManager} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := OriginalRedesign()
				r.Pending = 10_000
				got, err := r.Run(t.Context(), m())
				if err != nil {
					t.Fatal(err)
				}
				// Only the work takes time in the bubble: 30 times 50 ms, and 15 intervals of 100
				// ms in it.
				if got.Elapsed != 1500*time.Millisecond || got.Invocations < 14 || got.Invocations > 17 || got.Timeouts != 0 {
					t.Errorf("%+v", got)
				}
				if got.Invocation <= 0 || got.InvocationMax < got.Invocation {
					t.Errorf("invocations took %v, at most %v", got.Invocation, got.InvocationMax)
				}
			})
		})
	}
}

// forgetful loses a transaction.
type forgetful struct{ Manager }

func (m forgetful) End(id uint64, ref survival.Ref) bool { return m.Manager.End(id, ref) && id != 5 }

func TestRedesignFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		if _, err := OriginalRedesign().Run(t.Context(), forgetful{NewScan()}); !errors.Is(err, errLost) {
			t.Errorf("a lost transaction: %v", err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := OriginalRedesign().Run(ctx, NewScan()); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("interrupted: %v", err)
		}
		for _, spoil := range []func(*Redesign){
			func(r *Redesign) { r.Users = 0 },
			func(r *Redesign) { r.Users = MaxUsers + 1 },
			func(r *Redesign) { r.Iterations = 0 },
			func(r *Redesign) { r.Pending = -1 },
			func(r *Redesign) { r.Pending = MaxSize + 1 },
			func(r *Redesign) { r.Work = -1 },
			func(r *Redesign) { r.Interval = 0 },
		} {
			r := OriginalRedesign()
			spoil(&r)
			if _, err := r.Run(t.Context(), NewScan()); err == nil {
				t.Errorf("%+v was run", r)
			}
		}
	})
}

func TestMedianResult(t *testing.T) {
	var rounds []RedesignResult
	for _, d := range []time.Duration{3, 1, 2} {
		rounds = append(rounds, RedesignResult{Elapsed: d, Waited: 10 * d, WaitedMax: 20 * d, Invocation: 30 * d, InvocationMax: 40 * d, Invocations: 7})
	}
	want := RedesignResult{Elapsed: 2, Waited: 20, WaitedMax: 60, Invocation: 60, InvocationMax: 120, Invocations: 7}
	if diff := cmp.Diff(want, MedianResult(rounds)); diff != "" {
		t.Error(diff)
	}
}

func TestRoom(t *testing.T) {
	if err := checkMemoryIn("MemTotal: 9 kB\nMemAvailable:    1024000 kB\n", 1_000_000); err != nil {
		t.Error(err)
	}
	for _, unknown := range []string{"", "MemAvailable: plenty\n"} {
		if err := checkMemoryIn(unknown, MaxSize); err != nil {
			t.Errorf("%q: %v", unknown, err)
		}
	}
	if err := checkMemoryIn("MemAvailable:    102400 kB\n", 1_000_000); err == nil {
		t.Error("a million entries want 953 MiB, and there are 100")
	}
}
