package survivalpeers

import (
	"math/rand/v2"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/txmgr/txmgr/timeout/survival"
)

const (
	million = 1_000_000
	round   = million / 20
)

// step is one step of a contender: how many cancels succeeded and which entries ended.
type step struct {
	cancelled int
	ended     []uint64
}

// replay drives a contender through the history that the seed determines.
func replay[H any](timers Virtual[H], seed uint64) []step {
	r := rand.New(rand.NewPCG(seed, 0))
	var steps []step
	var handles []H
	last := uint64(0)
	buf := make([]uint64, 40)
	for tick := range survival.Tick(400) {
		ids, ends := make([]uint64, 1+r.IntN(50)), make([]survival.Tick, 0, 50)
		for n := range ids {
			last++
			ids[n] = last
			ends = append(ends, tick+1+survival.Tick(r.Uint64N(60)))
		}
		added := make([]H, len(ids))
		timers.Add(ids, ends, added)
		handles = append(handles, added...)
		gone := make([]H, r.IntN(40))
		for n := range gone {
			gone[n] = handles[r.IntN(len(handles))]
		}
		s := step{cancelled: timers.Cancel(gone)}
		for {
			n := timers.Expire(tick, buf)
			s.ended = append(s.ended, buf[:n]...)
			if n < len(buf) {
				break
			}
		}
		steps = append(steps, s)
	}
	return steps
}

// A contender that loses entries would be fast.
func TestContendersAgree(t *testing.T) {
	for seed := range uint64(20) {
		want := replay(NewUnlockedSurvival(), seed)
		for name, got := range map[string][]step{
			"locked": replay(NewLockedSurvival(), seed),
			"heap":   replay(&Heap{}, seed),
			"btree":  replay(NewTree(), seed),
		} {
			if !slices.EqualFunc(want, got, func(a, b step) bool {
				return a.cancelled == b.cancelled && slices.Equal(a.ended, b.ended)
			}) {
				t.Errorf("seed %d: %s differs", seed, name)
			}
		}
	}
}

func TestAfterFunc(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var timers AfterFunc
		handles := make([]*time.Timer, 3)
		timers.Add([]uint64{1, 2, 4}, []survival.Tick{1, 2, 3}, handles)
		<-time.After(Interval + 1)
		synctest.Wait()
		if got := timers.Cancel(handles[:2]); got != 1 {
			t.Errorf("cancelled %d of the first two after one interval, want 1", got)
		}
		<-time.After(2 * Interval)
		synctest.Wait()
		if got := timers.Sum.Load(); got != 1+4 {
			t.Errorf("ids that ended sum up to %d, want 5", got)
		}
	})
}

func BenchmarkPair(b *testing.B) {
	for _, w := range Workloads {
		b.Run(w.Name, func(b *testing.B) {
			b.Run("survival", func(b *testing.B) { benchPair(b, NewUnlockedSurvival(), w) })
			b.Run("survival+mutex", func(b *testing.B) { benchPair(b, NewLockedSurvival(), w) })
			b.Run("AfterFunc", func(b *testing.B) { benchPair(b, &AfterFunc{Unit: time.Hour}, w) })
			b.Run("heap+mutex", func(b *testing.B) { benchPair(b, &Heap{}, w) })
			b.Run("btree+mutex", func(b *testing.B) { benchPair(b, NewTree(), w) })
		})
	}
}

// benchPair adds and cancels in rounds at a million pending.
func benchPair[H any](b *testing.B, timers Timers[H], w Workload) {
	l := NewLoad(timers, w, million, round)
	l.Fill(million, million)
	var adding, cancelling time.Duration
	for b.Loop() {
		adding += l.AddRound()
		cancelling += l.CancelRound()
	}
	l.CancelAll()
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(float64(adding)/float64(b.N*round), "ns/add")
	b.ReportMetric(float64(cancelling)/float64(b.N*round), "ns/cancel")
}

func BenchmarkExpire(b *testing.B) {
	for _, w := range Workloads {
		b.Run(w.Name, func(b *testing.B) {
			b.Run("survival", func(b *testing.B) { benchExpire(b, func() Virtual[Handle] { return NewUnlockedSurvival() }, w) })
			b.Run("survival+mutex", func(b *testing.B) { benchExpire(b, func() Virtual[Handle] { return NewLockedSurvival() }, w) })
			b.Run("heap+mutex", func(b *testing.B) { benchExpire(b, func() Virtual[*Item] { return &Heap{} }, w) })
			b.Run("btree+mutex", func(b *testing.B) { benchExpire(b, func() Virtual[Key] { return NewTree() }, w) })
		})
	}
}

// benchExpire lets a million entries end.
func benchExpire[H any](b *testing.B, empty func() Virtual[H], w Workload) {
	var total, longest time.Duration
	for b.Loop() {
		timers := empty()
		NewLoad[H](timers, w, million, round).Fill(million, million)
		ended, took, step := Drain(timers, 4096)
		if ended != million {
			b.Fatalf("%d ended, want %d", ended, million)
		}
		total += took
		longest = max(longest, step)
	}
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(float64(total)/float64(b.N*million), "ns/expired")
	b.ReportMetric(float64(longest.Microseconds()), "longest-µs")
}
