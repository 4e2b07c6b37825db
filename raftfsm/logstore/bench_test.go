package logstore

import (
	"fmt"
	"testing"

	"github.com/hashicorp/raft"
)

// One StoreLogs as raft calls it, on a log that is cut now and then, as snapshots do.
func BenchmarkStoreLogs(b *testing.B) {
	for _, c := range []struct{ n, size int }{{1, 128}, {64, 128}, {1, 128 << 10}, {1, 1 << 20}} {
		b.Run(fmt.Sprintf("%dx%d", c.n, c.size), func(b *testing.B) {
			s := open(b, newPath(b), Options{})
			logs := make([]*raft.Log, c.n)
			for i := range logs {
				logs[i] = entry(1, 1, c.size)
			}
			keep := uint64(max(64, (64<<20)/(c.size*c.n)))
			next, calls := uint64(1), uint64(0)
			b.SetBytes(int64(c.n * c.size))
			b.ReportAllocs()
			for b.Loop() {
				for _, l := range logs {
					l.Index = next
					next++
				}
				store(b, s, logs...)
				if calls++; calls%keep == 0 {
					if err := s.DeleteRange(1, next-uint64(c.n)*keep/2); err != nil {
						b.Fatal(err)
					}
				}
			}
			st, err := s.Stats()
			if err != nil {
				b.Fatal(err)
			}
			b.ReportMetric(float64(st.Syncs)/float64(next-1), "fdatasyncs/entry")
		})
	}
}

func BenchmarkGetLog(b *testing.B) {
	for _, size := range []int{128, 128 << 10} {
		b.Run(fmt.Sprint(size), func(b *testing.B) {
			s := open(b, newPath(b), Options{})
			const n = 200
			store(b, s, entries(1, n, 1, size)...)
			b.SetBytes(int64(size))
			b.ReportAllocs()
			var l raft.Log
			for i := uint64(0); b.Loop(); i++ {
				if err := s.GetLog(1+i%n, &l); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkLastIndex(b *testing.B) {
	s := open(b, newPath(b), Options{})
	store(b, s, entry(1, 1, 1))
	for b.Loop() {
		if _, err := s.LastIndex(); err != nil {
			b.Fatal(err)
		}
	}
}

// Open verifies everything it finds.
func BenchmarkOpen(b *testing.B) {
	path := newPath(b)
	s := open(b, path, Options{})
	const n, size = 20_000, 1000
	for i := uint64(1); i < n; i += 500 {
		store(b, s, entries(i, i+499, 1, size)...)
	}
	closeStore(b, s)
	b.SetBytes(n * size)
	for b.Loop() {
		s, err := Open(path, Options{})
		if err != nil {
			b.Fatal(err)
		}
		closeStore(b, s)
	}
}
