package machine

import (
	"runtime"
	"testing"
	"time"

	"github.com/txmgr/txmgr/timeout/survival"
	"github.com/txmgr/txmgr/txn"
	"github.com/txmgr/txmgr/txn/admin"
)

// retainer is a machine that retains outcomes for an hour of ten ticks a second, and at most so
// many.
func retainer(tb testing.TB, retain uint64) *Machine {
	tb.Helper()
	m := New()
	for _, r := range m.Apply(Entry{Commands: []Command{
		Bootstrap{Cluster: "c1", Interval: 100 * time.Millisecond, Retention: time.Hour, Retain: retain},
		AddParticipant{admin.Participant{Name: "bank", Kind: "ledger"}},
		AddParticipant{admin.Participant{Name: "stock", Kind: "ledger"}},
	}}).Results {
		if r.Code != OK {
			tb.Fatalf("setting up: code %d", r.Code)
		}
	}
	return m
}

// live takes one transaction of two branches from its begin to its end, at a tick.
func live(m *Machine, n uint64, tick survival.Tick) {
	id := spread(n)
	b := beginTwo(n, tick+300)
	b.ID = id
	m.Apply(Entry{Tick: tick, Wall: 1763740800123 + int64(tick)*100, Index: n, Commands: []Command{
		b,
		Commit{ID: id, Votes: []txn.BranchVote{{Branch: 1, Vote: txn.VotePrepared}, {Branch: 2, Vote: txn.VotePrepared}}},
		ReportCompletion{ID: id, Reports: []txn.CompletionReport{{Branch: 1, State: txn.BranchCommitted}, {Branch: 2, State: txn.BranchCommitted}}},
	}})
}

// spread returns ids that look like those in use: their time first, then random bits.
func spread(n uint64) txn.ID {
	id := testID(n * 0x9e3779b97f4a7c15)
	for i := range 6 {
		id[i] = byte(n >> (8 * (5 - i)))
	}
	return id
}

func heap() uint64 {
	var s runtime.MemStats
	runtime.GC()
	runtime.GC()
	runtime.ReadMemStats(&s)
	return s.HeapAlloc
}

// BenchmarkKept is what a million retained outcomes cost, in memory, of the collector, and in a
// snapshot; how fast one is found; and how long the entry takes with which all are dropped
// together.
func BenchmarkKept(b *testing.B) {
	const kept = 1_000_000
	for b.Loop() {
		before := heap()
		m := retainer(b, 1<<40)
		for n := range uint64(kept) {
			live(m, n+1, survival.Tick(1+n*36000/kept))
		}
		b.ReportMetric(float64(heap()-before)/kept, "B/outcome")
		cpu := gcCPU()
		runtime.GC()
		b.ReportMetric((gcCPU()-cpu)*1000, "GC-ms")

		start := time.Now()
		s := m.Snapshot()
		b.ReportMetric(float64(time.Since(start).Nanoseconds())/1000, "snapshot-µs")
		start = time.Now()
		for range s.Transactions() {
		}
		b.ReportMetric(float64(time.Since(start).Nanoseconds())/kept, "snapshot-ns/outcome")
		s.Release()

		const gets = 200_000
		start = time.Now()
		for n := range uint64(gets) {
			if _, ok := m.Get(spread(n*7919%kept + 1)); !ok {
				b.Fatal("gone")
			}
		}
		b.ReportMetric(float64(time.Since(start).Nanoseconds())/gets, "get-ns")
		start = time.Now()
		for n := range uint64(gets) {
			if _, ok := m.Lookup(spread(n*7919%kept + 1)); !ok {
				b.Fatal("gone")
			}
		}
		b.ReportMetric(float64(time.Since(start).Nanoseconds())/gets, "lookup-ns")

		longest := time.Duration(0)
		entries := 0
		for tick := survival.Tick(80_000); m.Counts().Finished > 0; tick++ {
			start := time.Now()
			m.Apply(Entry{Tick: tick})
			longest = max(longest, time.Since(start))
			entries++
		}
		b.ReportMetric(float64(longest.Nanoseconds())/1000, "fall-off-µs")
		b.ReportMetric(float64(entries), "fall-off-entries")
	}
}

// BenchmarkLife is a transaction of two branches from its begin to its end, with a thousand
// others at the same time, and while as many are dropped as finish: by their age, at 280 a
// second, or because there are too many, at 20,000 a second. The memory is that of all of it,
// after an hour and after twice as many outcomes as are retained: then the index holds what was
// dropped, too.
func BenchmarkLife(b *testing.B) {
	for name, c := range map[string]struct {
		retain uint64
		each   uint64 // transactions a tick
	}{"age": {1 << 40, 28}, "cap": {1_000_000, 2000}} {
		b.Run(name, func(b *testing.B) {
			before := heap()
			m := retainer(b, c.retain)
			yes := []txn.BranchVote{{Branch: 1, Vote: txn.VotePrepared}, {Branch: 2, Vote: txn.VotePrepared}}
			done := []txn.CompletionReport{{Branch: 1, State: txn.BranchCommitted}, {Branch: 2, State: txn.BranchCommitted}}
			n := uint64(0)
			// One begins, another commits, and a third is done.
			step := func() {
				n++
				tick := survival.Tick(1 + n/c.each)
				e := Entry{Tick: tick, Wall: 1763740800123 + int64(tick)*100, Index: n, Commands: make([]Command, 0, 3)}
				begin := beginTwo(n, tick+300)
				begin.ID = spread(n)
				e.Commands = append(e.Commands, begin)
				if n > 1000 {
					e.Commands = append(e.Commands, Commit{ID: spread(n - 500), Votes: yes}, ReportCompletion{ID: spread(n - 1000), Reports: done})
				}
				m.Apply(e)
			}
			for range 2_200_000 {
				step()
			}
			memory := float64(heap()-before) / float64(m.Counts().Finished)
			for b.Loop() {
				step()
			}
			b.ReportMetric(memory, "B/outcome")
			if c := m.Counts(); c.Undecided+c.Completing < 999 || c.Undecided+c.Completing > 1500 {
				b.Fatalf("%+v", c)
			}
		})
	}
}
