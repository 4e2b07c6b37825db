package machine

import (
	"encoding/binary"
	"runtime"
	"testing"
	"time"

	"github.com/txmgr/txmgr/timeout/survival"
	"github.com/txmgr/txmgr/txn"
	"github.com/txmgr/txmgr/txn/admin"
)

func testID(n uint64) (id txn.ID) {
	binary.BigEndian.PutUint64(id[8:], n)
	id[0] = 1
	return id
}

func bootstrapped(tb testing.TB, participants ...string) *Machine {
	tb.Helper()
	m := New()
	cmds := []Command{Bootstrap{Cluster: "c1", Interval: 100 * time.Millisecond, Retention: time.Hour, Retain: 1 << 20}}
	for _, p := range participants {
		cmds = append(cmds, AddParticipant{admin.Participant{Name: p, Kind: "ledger"}})
	}
	for _, r := range m.Apply(Entry{Commands: cmds}).Results {
		if r.Code != OK {
			tb.Fatalf("setting up: code %d", r.Code)
		}
	}
	return m
}

func beginTwo(n uint64, expiry survival.Tick) Begin {
	return Begin{
		ID: testID(n), Name: "transfer", Timeout: 30 * time.Second, Survival: 301, Expiry: expiry,
		Branches: []Branch{{Participant: "bank"}, {Participant: "stock"}},
	}
}

func BenchmarkBeginCommit(b *testing.B) {
	m := bootstrapped(b, "bank", "stock")
	var n uint64
	for b.Loop() {
		n++
		m.Apply(Entry{Commands: []Command{Begin{ID: testID(n), Name: "transfer", Timeout: 30 * time.Second, Expiry: 1000}, Commit{ID: testID(n)}}})
	}
}

// BenchmarkOpen shows what a million open transactions with two branches cost.
func BenchmarkOpen(b *testing.B) {
	const open = 1_000_000
	var before, after runtime.MemStats
	for b.Loop() {
		runtime.GC()
		runtime.ReadMemStats(&before)
		m := bootstrapped(b, "bank", "stock")
		for n := range uint64(open) {
			m.Apply(Entry{Commands: []Command{beginTwo(n+1, survival.Tick(300+n%1000))}})
		}
		runtime.GC()
		runtime.ReadMemStats(&after)
		b.ReportMetric(float64(after.HeapAlloc-before.HeapAlloc)/open, "B/tx")
		cpu := gcCPU()
		runtime.GC()
		b.ReportMetric((gcCPU()-cpu)*1000, "GC-ms")
		start := time.Now()
		s := m.Snapshot()
		b.ReportMetric(float64(time.Since(start).Microseconds()), "snapshot-µs")
		s.Release()
		start = time.Now()
		m.Apply(Entry{Tick: 1})
		b.ReportMetric(float64(time.Since(start).Nanoseconds()), "tick-ns")
	}
}
