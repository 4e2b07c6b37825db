package purgatory

import (
	"fmt"
	"runtime"
	"sync/atomic"
	"testing"
	"time"
	"weak"
)

const million = 1_000_000

// never is a request that is not satisfied. It has a size, so that two are not one.
type never struct{ _ [24]byte }

func (*never) TryComplete() bool { return false }
func (*never) Complete(Outcome)  {}

// A completed request can be collected at once, although its handle is held and its watchers were
// not touched.
func TestRequestThatIsOverIsCollected(t *testing.T) {
	p := start[string](t)
	q := &never{}
	w := weak.Make(q)
	r, err := p.Park(q, time.Hour, "a", "b")
	if err != nil {
		t.Fatal(err)
	}
	runtime.GC()
	if w.Value() == nil {
		t.Fatal("a parked request was collected: nothing but its deadline holds it")
	}
	r.Cancel()
	runtime.GC()
	if w.Value() != nil {
		t.Error("a request that is over is kept")
	}
	if p.Watchers() != 2 {
		t.Errorf("%d watchers, want those that nobody has touched", p.Watchers())
	}
	runtime.KeepAlive(r)
	r = nil
	p.awaitCleanups(t)
}

// Entries of completed requests vanish by themselves, also of keys that are not used again.
func TestListsAreSweptByThemselves(t *testing.T) {
	for _, c := range []struct {
		name string
		keys func(n int) []int
	}{
		{"own keys", func(n int) []int { return []int{n} }},
		{"one key", func(int) []int { return []int{0} }},
		{"several keys", func(n int) []int { return []int{n + 10, -n - 1, n % 10} }},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := start[int](t)
			const many = 20_000
			handles := make([]*Parked, many)
			for n := range handles {
				var err error
				if handles[n], err = p.Park(&never{}, time.Hour, c.keys(n)...); err != nil {
					t.Fatal(err)
				}
			}
			p.awaitCleanups(t)
			full := p.Watchers()
			if want := many * len(c.keys(0)); full != want {
				t.Fatalf("%d watchers, want %d", full, want)
			}
			for n, r := range handles {
				if n%100 != 0 {
					r.Cancel()
					handles[n] = nil
				}
			}
			p.awaitCleanups(t)
			live := full / 100
			if n := p.Watchers(); n < live || n > 2*live+shards*minSweep {
				t.Errorf("%d watchers are left of %d, where %d wait", n, full, live)
			}
			for n, r := range handles {
				r.Cancel()
				handles[n] = nil
			}
			p.awaitCleanups(t)
			if n := p.Watchers(); n > shards*minSweep {
				t.Errorf("%d watchers are left where nothing waits", n)
			}
		})
	}
}

// An entry that a check has removed before the collector saw it does not count twice.
func TestSweepCountsWhatWalksHaveRemoved(t *testing.T) {
	p := start[string](t)
	for range 50 {
		var handles []*Parked
		for n := range 200 {
			r, err := p.Park(&never{}, time.Hour, fmt.Sprint(n%5), "all")
			if err != nil {
				t.Fatal(err)
			}
			handles = append(handles, r)
		}
		for _, r := range handles {
			r.Cancel()
		}
		p.Check("all")
		if err := p.check(); err != nil {
			t.Fatal(err)
		}
	}
	p.awaitCleanups(t)
}

// A walk that meets no live request removes all completed ones, however long the list.
func TestWalkRemovesAllThatIsOver(t *testing.T) {
	for _, every := range []int{1, 2, 7, 513} {
		p := start[string](t)
		parked, err := p.Park(&never{}, time.Hour, "other") // or there would be nothing to check
		if err != nil {
			t.Fatal(err)
		}
		live := []*Parked{parked}
		for n := range 5000 {
			r, err := p.Park(&never{}, time.Hour, "a")
			if err != nil {
				t.Fatal(err)
			}
			if n%every == 0 {
				r.Cancel()
			} else {
				live = append(live, r)
			}
		}
		p.Check("a")
		if n := p.Watchers(); n != len(live) {
			t.Errorf("one of %d is over: %d watchers are left, where %d wait", every, n, len(live))
		}
		if err := p.check(); err != nil {
			t.Error(err)
		}
		runtime.KeepAlive(live)
	}
}

// A check removes the watchers of the requests that it has completed itself, in the list of its key; those in the lists of
// other keys go when these are checked, although nothing is parked by then.
func TestCheckRemovesWhatItCompletes(t *testing.T) {
	for _, many := range []int{1, batch, batch + 1, stride + 1, 3000} {
		p := start[string](t)
		var up atomic.Bool
		var ends atomic.Int64
		waiting := 0
		for n := range many {
			var q Request = &flag{&up, &ends}
			if n%5 == 3 {
				q = &never{}
				waiting++
			}
			if _, err := p.Park(q, time.Hour, "a", "b", fmt.Sprint(n%3)); err != nil {
				t.Fatal(err)
			}
		}
		up.Store(true)
		if n := p.Check("a"); n != many-waiting {
			t.Fatalf("%d of %d completed", n, many-waiting)
		}
		if n, want := p.listed("a"), waiting; n != want {
			t.Errorf("%d requests of %d completed: %d watchers are left in the list of the key, want %d", many-waiting, many, n, want)
		}
		p.Check("b")
		if n, want := p.listed("b"), waiting; n != want {
			t.Errorf("checked after them: %d watchers are left in the list of the other key, want %d", n, want)
		}
		p.CheckAll()
		if n := p.Watchers(); n != 3*waiting {
			t.Errorf("all keys checked: %d watchers are left, want %d", n, 3*waiting)
		}
		if err := p.check(); err != nil {
			t.Error(err)
		}
	}
}

// A check cleans also when nothing is parked any more.
func TestCheckCleansWhereNothingIsParked(t *testing.T) {
	p := start[string](t)
	for n := range 5 {
		r, err := p.Park(&never{}, time.Hour, "a", "b", fmt.Sprint(n))
		if err != nil {
			t.Fatal(err)
		}
		r.Cancel()
	}
	for _, c := range []struct {
		check func() int
		left  int
	}{
		{func() int { return p.Check("a") }, 10},
		{func() int { return p.Check("a") + p.Check("b") }, 5},
		{p.CheckAll, 0},
	} {
		if n := c.check(); n != 0 || p.Len() != 0 {
			t.Errorf("%d completed, %d parked, where all are over", n, p.Len())
		}
		if n := p.Watchers(); n != c.left {
			t.Errorf("nothing is parked: a check has left %d watchers, want %d", n, c.left)
		}
	}
}

// cancels is a request that cancels others when it is tried.
type cancels struct{ others []*Parked }

func (c *cancels) TryComplete() bool {
	for _, r := range c.others {
		r.Cancel()
	}
	return false
}

func (*cancels) Complete(Outcome) {}

// ill is a request whose Complete panics.
type ill struct{ flag }

func (*ill) Complete(Outcome) { panic("ill") }

// Requests that are completed during a walk have no watcher after it, whatever completed them.
func TestWalkRemovesWhatEndsMeanwhile(t *testing.T) {
	p := start[string](t)
	c := &cancels{}
	for range 10 {
		r, err := p.Park(&never{}, time.Hour, "a")
		if err != nil {
			t.Fatal(err)
		}
		c.others = append(c.others, r)
	}
	others := c.others
	c.others = nil
	if _, err := p.Park(c, time.Hour, "a"); err != nil { // tried first
		t.Fatal(err)
	}
	c.others = others
	if n := p.Check("a"); n != 0 || p.Watchers() != 1 {
		t.Errorf("%d completed, %d watchers; want the one that cancels the others", n, p.Watchers())
	}

	var up atomic.Bool
	for range 3 {
		if _, err := p.Park(&ill{flag{up: &up}}, time.Hour, "b"); err != nil {
			t.Fatal(err)
		}
	}
	up.Store(true)
	func() {
		defer func() { _ = recover() }()
		p.Check("b")
		t.Error("the panic was lost")
	}()
	if n := p.listed("b"); n != 0 {
		t.Errorf("%d watchers are left of requests whose Complete has panicked", n)
	}
}

// Walks of one key run beside each other, beside parks, and beside the removal of the watchers on
// which they stand.
func TestWalksMeet(t *testing.T) {
	p := start[int](t)
	const many = 3000
	handles := make([]*Parked, 0, many)
	for range many {
		r, err := p.Park(&never{}, time.Hour, 1)
		if err != nil {
			t.Fatal(err)
		}
		handles = append(handles, r)
	}
	s := p.shard(1)
	walks := make([]*walk[int], 5)
	seen := make([]map[*Parked]bool, len(walks))
	for i := range walks {
		walks[i] = &walk[int]{shard: s, key: 1, more: true, sweep: i == 0}
		seen[i] = make(map[*Parked]bool)
	}
	live := make(map[*Parked]bool)
	for _, r := range handles {
		live[r] = true
	}
	for n := 0; ; n++ {
		ended := 0
		for i, w := range walks {
			if n < 40*i {
				continue // it begins later
			}
			r, ok := w.next()
			if !ok {
				ended++
				continue
			}
			if seen[i][r] {
				t.Fatalf("walk %d sees a request twice", i)
			}
			seen[i][r] = true
			if i == 3 {
				r.Cancel()
			}
		}
		if n%7 == 0 && n < many {
			handles[n].Cancel()
			delete(live, handles[n])
		}
		if err := p.check(); err != nil {
			t.Fatal(err)
		}
		if ended == len(walks) {
			break
		}
	}
	for r := range seen[3] {
		if !r.Done() {
			t.Error("a request is not over")
		}
	}
	p.Check(1)
	if n := p.Watchers(); n != 0 {
		t.Errorf("%d watchers are left, where every request is over", n)
	}
	for r := range live {
		if !seen[3][r] {
			t.Fatal("a request that waited all the time was not seen")
		}
	}
}

// Requests that are completed early leave next to nothing, whether or not their keys are touched again.
func TestAMillionLeaveNothing(t *testing.T) {
	for _, c := range []struct {
		many  int
		touch bool
	}{{million / 4, true}, {million, false}} {
		p := start[int](t)
		before, _ := heap()
		handles := make([]*Parked, c.many)
		for n := range handles {
			handles[n], _ = p.Park(&never{}, time.Hour, n)
		}
		full, _ := heap()
		for n, r := range handles {
			r.Cancel()
			if c.touch {
				p.Check(n)
			}
		}
		held := int64(full-before) - 8*int64(c.many)
		handles = nil
		p.awaitCleanups(t)
		after, _ := heap()
		left := int64(after - before)
		t.Logf("%d requests, keys touched %v: %d B each, %d kB left, %.2f %%",
			c.many, c.touch, held/int64(c.many), left/1000, float64(left)*100/float64(held))
		if left > held/100 {
			t.Errorf("%d of %d bytes are left", left, held)
		}
		p.Stop()
	}
}
