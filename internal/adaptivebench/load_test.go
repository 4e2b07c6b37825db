package adaptivebench

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
)

// fakeUser makes a request take ten milliseconds.
type fakeUser struct{ here *atomic.Int64 }

func (u fakeUser) request(ctx context.Context) error {
	select {
	case <-time.After(10 * time.Millisecond):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (u fakeUser) close() { u.here.Add(-1) }

// seen is the result of a sample.
type seen struct {
	Phase    int
	From, To time.Duration
	Here     int64
	Answered int64
}

func TestPhasesAndUsers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var here, answered atomic.Int64
		c := closedLoop{
			ctx:     t.Context(),
			fail:    func(err error) { t.Error(err) },
			took:    func(d time.Duration) { answered.Add(1); wantTen(t, d) },
			newUser: func() (user, error) { here.Add(1); return fakeUser{&here}, nil },
		}
		var got []seen
		c.runPhases(PhasesOf(VaryingLoad, 100), 5005*time.Millisecond, 500*time.Millisecond, func(phase int, from, to time.Duration) {
			synctest.Wait()
			got = append(got, seen{phase, from.Round(time.Microsecond), to.Round(time.Microsecond), here.Load(), answered.Swap(0)})
		})
		c.end()
		synctest.Wait()
		if n := here.Load(); n != 0 {
			t.Errorf("%d users are still there", n)
		}
		half := 500500 * time.Microsecond
		want := []seen{
			{0, 0, half, 50, 2500},
			{0, half, 2 * half, 50, 2500},
			// 49 users have been removed, and wait for their answers first.
			{1, 2 * half, 3 * half, 1, 49 + 51},
			{1, 3 * half, 4 * half, 1, 50},
			{2, 4 * half, 5 * half, 100, 5000},
			{2, 5 * half, 6 * half, 100, 5000},
			{3, 6 * half, 7 * half, 0, 100},
			{3, 7 * half, 8 * half, 0, 0},
			{4, 8 * half, 9 * half, 50, 2500},
			{4, 9 * half, 10 * half, 50, 2500},
		}
		for i := range got {
			// A request that is answered near a border may belong to either side.
			if i < len(want) && got[i].Answered-want[i].Answered <= 150 && want[i].Answered-got[i].Answered <= 150 {
				got[i].Answered = want[i].Answered
			}
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Error(diff)
		}
	})
}

func wantTen(t *testing.T, d time.Duration) {
	if d != 10*time.Millisecond {
		t.Errorf("a request took %v", d)
	}
}

func TestEveryPhaseHasAPiece(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := closedLoop{ctx: t.Context(), fail: func(error) {}, took: func(time.Duration) {}, newUser: func() (user, error) { return nil, errors.New("nobody") }}
		phases := map[int]int{}
		c.runPhases(PhasesOf(VaryingLoad, 4), 50*time.Millisecond, time.Second, func(phase int, _, _ time.Duration) { phases[phase]++ })
		c.end()
		if diff := cmp.Diff(map[int]int{0: 1, 1: 1, 2: 1, 3: 1, 4: 1}, phases); diff != "" {
			t.Error(diff)
		}
	})
}

func TestInterruptedLoadEndsAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		var here atomic.Int64
		c := closedLoop{ctx: ctx, fail: func(error) {}, took: func(time.Duration) {}, newUser: func() (user, error) { here.Add(1); return fakeUser{&here}, nil }}
		began := time.Now()
		samples := 0
		time.AfterFunc(1234*time.Millisecond, cancel)
		c.runPhases(PhasesOf(FixedLoad, 20), time.Hour, time.Second, func(int, time.Duration, time.Duration) { samples++ })
		c.end()
		if d := time.Since(began); d != 1234*time.Millisecond || samples != 1 || here.Load() != 0 {
			t.Errorf("ended after %v with %d samples and %d users", d, samples, here.Load())
		}
	})
}

func TestLoadsOfTheSource(t *testing.T) {
	users := func(phases []Phase) (all []int) {
		part := 0.0
		for _, p := range phases {
			all = append(all, p.Users)
			part += p.Part
		}
		if part < 0.999 || part > 1.001 {
			t.Errorf("the phases are %v of the time", part)
		}
		return all
	}
	if diff := cmp.Diff([]int{50, 1, 100, 0, 50}, users(PhasesOf(VaryingLoad, 100))); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]int{7, 7}, users(PhasesOf(FixedLoad, 7))); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]int{1, 1, 1, 0, 1}, users(PhasesOf(VaryingLoad, 1))); diff != "" {
		t.Error(diff)
	}
}
