package heap

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/txmgr/txmgr/timeout"
)

// contender is a queue of sleepers that are numbered from 0. Its methods work on many at a time, so
// that the cost of a call through the interface is negligible.
type contender interface {
	// insert puts the sleepers in, each with its own end.
	insert(who []int, ends []timeout.Tick)
	// remove takes the sleepers out, wherever they stand.
	remove(who []int)
}

var contenders = []struct {
	name string
	make func(l layout, sleepers int) contender
	most int // sleepers: above it, waiting for the result would be pointless
}{
	{"heap", newTree, 1_000_000},
	{"container", newArray, 1_000_000},
	{"list", newSorted, 10_000},
	{"afterfunc", newTimers, 1_000_000},
}

func numbers(n int) []int {
	all := make([]int, n)
	for i := range all {
		all[i] = i
	}
	return all
}

// BenchmarkInterrupted is the experiment of the heap's source: 1,000 sleepers with random times, all interrupted before
// the end. The source repeats it 1,000 times: a million insertions and removals, in seconds 1,000 times ns/op.
func BenchmarkInterrupted(b *testing.B) {
	for _, l := range []layout{packed, threads} {
		for _, c := range contenders {
			b.Run(fmt.Sprintf("%s/%s", l, c.name), func(b *testing.B) { interrupt(b, c.make(l, sleepers)) })
		}
	}
}

const sleepers = 1000

func interrupt(b *testing.B, q contender) {
	const rounds = 64
	r := rand.New(rand.NewPCG(1, 2))
	who, ends := numbers(sleepers), make([]timeout.Tick, sleepers*rounds)
	for i := range ends {
		ends[i] = timeout.Tick(r.Uint64N(1_000_000_000))
	}
	var inserting, removing time.Duration
	round := 0
	b.ReportAllocs()
	for b.Loop() {
		start := time.Now()
		q.insert(who, ends[round*sleepers:][:sleepers])
		filled := time.Now()
		q.remove(who)
		removing += time.Since(filled)
		inserting += filled.Sub(start)
		round = (round + 1) % rounds
	}
	b.ReportMetric(float64(inserting.Nanoseconds())/float64(b.N*sleepers), "ns/insert")
	b.ReportMetric(float64(removing.Nanoseconds())/float64(b.N*sleepers), "ns/remove")
}

// BenchmarkChurn replaces sleepers that stand anywhere among a number of others.
func BenchmarkChurn(b *testing.B) {
	for _, sleepers := range []int{100, 10_000, 1_000_000} {
		for _, c := range contenders {
			if sleepers > c.most {
				continue
			}
			b.Run(fmt.Sprintf("%s/sleepers=%d", c.name, sleepers), func(b *testing.B) {
				const batch = 100
				r := rand.New(rand.NewPCG(1, 2))
				q, who, ends := c.make(threads, sleepers), numbers(sleepers), make([]timeout.Tick, sleepers)
				for i := range ends {
					ends[i] = timeout.Tick(r.Uint64N(1_000_000_000))
				}
				q.insert(who, ends)
				r.Shuffle(sleepers, func(i, k int) { who[i], who[k] = who[k], who[i] })
				var inserting, removing time.Duration
				at := 0
				for b.Loop() {
					some := who[at : at+batch]
					start := time.Now()
					q.remove(some)
					gone := time.Now()
					q.insert(some, ends[at:at+batch])
					inserting += time.Since(gone)
					removing += gone.Sub(start)
					at = (at + batch) % sleepers
				}
				b.ReportMetric(0, "ns/op")
				b.ReportMetric(float64(inserting.Nanoseconds())/float64(b.N*batch), "ns/insert")
				b.ReportMetric(float64(removing.Nanoseconds())/float64(b.N*batch), "ns/remove")
			})
		}
	}
}

// BenchmarkPop takes the first sleeper and puts it in again with a later end: a queue of alarms that repeat.
func BenchmarkPop(b *testing.B) {
	for _, sleepers := range []int{100, 10_000, 1_000_000} {
		b.Run(fmt.Sprintf("sleepers=%d", sleepers), func(b *testing.B) {
			r := rand.New(rand.NewPCG(1, 2))
			var h Heap[int]
			for i := range sleepers {
				h.Insert(&Node[int]{Value: i}, timeout.Tick(r.Uint64N(1_000_000)))
			}
			b.ReportAllocs()
			for b.Loop() {
				n := h.Pop()
				h.Insert(n, n.End()+timeout.Tick(r.Uint64N(1_000_000)))
			}
		})
	}
}
