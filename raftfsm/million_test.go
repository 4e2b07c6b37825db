package raftfsm

import (
	"bytes"
	"io"
	"runtime"
	"slices"
	"testing"
	"time"

	"github.com/hashicorp/raft"

	"github.com/txmgr/txmgr/timeout/survival"
	"github.com/txmgr/txmgr/txn/machine"
)

// filled gives an FSM with open transactions of two branches each, made through the codec, and the entry of its log.
func filled(t testing.TB, open int) (f *FSM, index uint64) {
	t.Helper()
	f = New(Config{})
	index++
	mustApply(t, f, logOf(t, index, setup()))
	for n := 0; n < open; {
		e := machine.Entry{Tick: 1, Wall: 1763740800123}
		for ; n < open && len(e.Commands) < 1000; n++ {
			begin, _, _ := pair(uint64(n))
			b := begin.(machine.Begin)
			b.Expiry = survival.Tick(1000 + n%1000)
			e.Commands = append(e.Commands, b)
		}
		index++
		mustApply(t, f, logOf(t, index, e))
	}
	return f, index
}

// writer applies entries that commit and finish a hundred open transactions each, in an order that
// touches block after block, until it is stopped. *next counts them, of open in all. It returns the
// time that each entry took.
func writer(t testing.TB, f *FSM, index uint64, next *int, open int, stop <-chan struct{}) (took []time.Duration) {
	for *next+100 <= open {
		select {
		case <-stop:
			return took
		default:
		}
		e := machine.Entry{Tick: 1, Wall: 1763740800456}
		for range 100 {
			_, commit, done := pair(uint64(*next * 7919 % open))
			e.Commands = append(e.Commands, commit, done)
			*next++
		}
		index++
		l := logOf(t, index, e)
		start := time.Now()
		a, ok := f.Apply(l).(*Applied)
		took = append(took, time.Since(start))
		if !ok || slices.ContainsFunc(a.Effects.Results, func(r machine.Result) bool { return r.Code != machine.OK }) {
			t.Errorf("entry %d: not all was carried out", index)
			return took
		}
	}
	return took
}

// TestPersistWhileApplying: a snapshot is the state of its moment, however much is written while it is being written.
func TestPersistWhileApplying(t *testing.T) {
	const open = 20_000
	f, index := filled(t, open)
	before := fingerprint(f)
	s, err := f.Snapshot()
	if err != nil {
		t.Fatal(err)
	}
	store, err := raft.NewFileSnapshotStore(t.TempDir(), 1, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	sink, err := store.Create(1, index, 2, raft.Configuration{}, 1, nil)
	if err != nil {
		t.Fatal(err)
	}
	stop, entries, next := make(chan struct{}), make(chan int), 0
	go func() { entries <- len(writer(t, f, index, &next, open, stop)) }()
	err = s.Persist(sink)
	s.Release()
	close(stop)
	if n := <-entries; err != nil || n == 0 {
		t.Fatalf("%v, with %d entries meanwhile", err, n)
	}
	if fingerprint(f) == before {
		t.Error("the writer has changed nothing")
	}
	_, r, err := store.Open(sink.ID())
	if err != nil {
		t.Fatal(err)
	}
	g := New(Config{})
	if err := g.Restore(r); err != nil {
		t.Fatal(err)
	}
	if fingerprint(g) != before {
		t.Error("the snapshot is not the state of its moment")
	}
}

// BenchmarkMillion writes a million open transactions to a real file, with a writer going on, and reads them back.
func BenchmarkMillion(b *testing.B) {
	const open = 1_000_000
	f, index := filled(b, open)
	var pauses, stops []time.Duration
	var persist, restore time.Duration
	var growth float64
	var size int64
	rounds, next := 0, 0
	for b.Loop() {
		store, err := raft.NewFileSnapshotStore(b.TempDir(), 1, io.Discard)
		if err != nil {
			b.Fatal(err)
		}
		sink, err := store.Create(1, index, 2, raft.Configuration{}, 1, nil)
		if err != nil {
			b.Fatal(err)
		}
		runtime.GC()
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		start := time.Now()
		s, err := f.Snapshot()
		pauses = append(pauses, time.Since(start))
		if err != nil {
			b.Fatal(err)
		}
		stop, took := make(chan struct{}), make(chan []time.Duration)
		go func() { took <- writer(b, f, index, &next, open, stop) }()
		start = time.Now()
		if err := s.Persist(sink); err != nil {
			b.Fatal(err)
		}
		persist += time.Since(start)
		s.Release()
		close(stop)
		stops = append(stops, <-took...)
		runtime.ReadMemStats(&after)
		growth = max(growth, float64(after.HeapInuse)-float64(before.HeapInuse))

		meta, r, err := store.Open(sink.ID())
		if err != nil {
			b.Fatal(err)
		}
		size = meta.Size
		start = time.Now()
		if err := New(Config{}).Restore(r); err != nil {
			b.Fatal(err)
		}
		restore += time.Since(start)
		rounds++
	}
	slices.Sort(stops)
	b.ReportMetric(float64(slices.Max(pauses).Microseconds()), "pause-µs")
	b.ReportMetric(float64(stops[len(stops)-1].Microseconds())/1000, "longest-entry-ms")
	b.ReportMetric(float64(stops[len(stops)*99/100].Microseconds())/1000, "p99-entry-ms")
	b.ReportMetric(float64(stops[len(stops)/2].Microseconds())/1000, "median-entry-ms")
	b.ReportMetric(float64(len(stops))/float64(rounds), "entries/persist")
	b.ReportMetric(persist.Seconds()/float64(rounds), "persist-s")
	b.ReportMetric(restore.Seconds()/float64(rounds), "restore-s")
	b.ReportMetric(float64(size)/open, "B/tx")
	b.ReportMetric(growth/(1<<20), "heap-growth-MiB")
}

// BenchmarkWriteSnapshot and BenchmarkReadSnapshot are the codec and the machine alone, without a disk or a writer.
func BenchmarkWriteSnapshot(b *testing.B) {
	f, _ := filled(b, 100_000)
	for b.Loop() {
		s, err := f.Snapshot()
		if err != nil {
			b.Fatal(err)
		}
		inner := s.(*snapshot)
		if err := writeSnapshot(io.Discard, inner.version(), inner.Header(), withoutErrors(inner.Sessions()), withoutErrors(inner.Transactions())); err != nil {
			b.Fatal(err)
		}
		s.Release()
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*100_000), "ns/tx")
}

func BenchmarkReadSnapshot(b *testing.B) {
	f, _ := filled(b, 100_000)
	data := persisted(b, f)
	for b.Loop() {
		if _, err := readSnapshot(bytes.NewReader(data)); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*100_000), "ns/tx")
}
