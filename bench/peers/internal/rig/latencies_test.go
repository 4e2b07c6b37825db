package rig

import (
	"context"
	"encoding/json"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"testing/synctest"
	"time"
)

// Rounds that were recorded in several processes, and merged from JSON, have the quantiles of all
// durations in one list, to within a bucket.
func TestMergedLatenciesAgainstAList(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	var list []time.Duration
	var rounds []*Latencies
	for range 3 {
		l := new(Latencies)
		for range 5000 {
			d := time.Duration(math.Exp(r.Float64() * math.Log(float64(longest))))
			l.Record(d)
			list = append(list, d)
		}
		data, err := json.Marshal(l)
		if err != nil {
			t.Fatal(err)
		}
		got := new(Latencies)
		if err := json.Unmarshal(data, got); err != nil {
			t.Fatal(err)
		}
		rounds = append(rounds, got)
	}
	slices.Sort(list)
	all := Merged(rounds)
	if all.Count() != int64(len(list)) {
		t.Fatalf("%d durations, want %d", all.Count(), len(list))
	}
	for _, p := range []float64{50, 90, 99, 99.9, 100} {
		want := list[int(math.Round(p/100*float64(len(list))))-1]
		if got := all.Percentile(p); got < want || float64(got) > 1.001*float64(want)+1 {
			t.Errorf("percentile %v: %d, want %d", p, got, want)
		}
	}
	if first := rounds[0].Count(); first != 5000 {
		t.Errorf("merging changed a round: %d durations", first)
	}
}

func TestLatenciesOfNothingAndOutOfRange(t *testing.T) {
	var l Latencies
	if l.Count() != 0 || l.Percentile(99) != 0 || Merged(nil).Max() != 0 || Merged([]*Latencies{nil, &l}).Max() != 0 {
		t.Error("an empty one has a duration")
	}
	l.Record(-time.Second)
	l.Record(2 * longest)
	if p50, most := l.Percentile(50), l.Max(); l.Count() != 2 || p50 != 0 || most < longest || most > longest+longest/1000 {
		t.Errorf("%d durations, median %v, longest %v", l.Count(), p50, most)
	}
	if err := json.Unmarshal([]byte(`{"hdrhistogram": "nonsense"}`), &l); err == nil || l.Count() != 2 {
		t.Errorf("error %v, %d durations", err, l.Count())
	}
}

// A load counts each pair that began within its span once, and the time that it took.
func TestLoadRecordsLatencies(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		pair := func(context.Context, int) error {
			<-time.After(10 * time.Millisecond)
			return nil
		}
		s, err := Load{Callers: 4, Warm: time.Second, Span: 10 * time.Second, Pair: pair}.Run(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if p50, most := s.Latencies.Percentile(50), s.Latencies.Max(); s.Pairs < 3990 || s.Pairs > 4004 || s.Latencies.Count() < 3990 || s.Latencies.Count() > 4004 ||
			p50 < 10*time.Millisecond || p50 > 10010*time.Microsecond || most != p50 {
			t.Errorf("%d pairs, %d latencies, median %v, longest %v", s.Pairs, s.Latencies.Count(), p50, most)
		}
	})
}
