package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"text/tabwriter"
	"time"

	"github.com/txmgr/txmgr/bench/peers/internal/rig"
)

// report is the result of one run.
type report struct {
	Condition rig.Condition  `json:"condition"`
	Etcd      string         `json:"etcd"` // its version
	Flush     *rig.Latencies `json:"flush"`
	Value     int            `json:"value_bytes"`
	Rows      []*row         `json:"rows"`
	Moved     int            `json:"leader_moved"` // rounds that were repeated because the leader changed
	Goals     []rig.Goal     `json:"goals"`
}

// row is one contender in all rounds.
type row struct {
	key
	Rounds []measure `json:"rounds"`
}

// maxLeaderChanges is how many rounds are repeated before the machine counts as too busy to measure
// on.
const maxLeaderChanges = 20

func (r *report) measure(ctx context.Context, s *contestants, o options) error {
	for _, k := range contenders(o.only) {
		r.Rows = append(r.Rows, &row{key: k})
	}
	if s.inprocess != nil && o.profile != "" {
		if err := s.inprocess.Profile(ctx, o.profile); err != nil {
			return err
		}
	}
	for n := range o.rounds {
		// A new order each round, so that no contender always follows the same one.
		for _, i := range rand.Perm(len(r.Rows)) {
			if err := r.repeat(ctx, s, r.Rows[i], o, fmt.Sprintf("round %d of %d", n+1, o.rounds)); err != nil {
				return fmt.Errorf("%s with %d callers: %w", r.Rows[i].Way, r.Rows[i].Callers, err)
			}
		}
	}
	if s.inprocess != nil && o.profile != "" {
		if err := s.inprocess.Profile(ctx, ""); err != nil {
			return err
		}
	}
	r.checkGoals()
	return nil
}

// repeat measures until the leader does not change meanwhile.
func (r *report) repeat(ctx context.Context, s *contestants, row *row, o options, which string) error {
	for {
		m, err := s.round(ctx, row.key, o.value, time.Duration(o.seconds*float64(time.Second)))
		if errors.Is(err, errLeaderChanged) && r.Moved < maxLeaderChanges {
			r.Moved++
			progressf("%s: %-20s %5d callers: once more: %v", which, row.Way, row.Callers, err)
			continue
		}
		if err != nil {
			return err
		}
		progressf("%s: %-20s %5d callers: %7.0f pairs/s, %v", which, row.Way, row.Callers, m.PerSecond, m.Latencies)
		row.Rounds = append(row.Rounds, m)
		return nil
	}
}

func (r *report) checkGoals() {
	ways := []struct{ way, name string }{{jsonWay, "JSON"}, {unaryWay, "SDK unary"}}
	for _, callers := range []int{64, 256} {
		for _, w := range ways {
			a, b := r.row(key{w.way, callers}), r.row(key{etcdWay, callers})
			if a == nil || b == nil {
				continue
			}
			r.Goals = append(r.Goals,
				rig.AtLeast(fmt.Sprintf("pairs/s, %s to etcd, %d callers", w.name, callers), 2, ratios(a, b, rate)),
				rig.AtMost(fmt.Sprintf("p99, %s to etcd, %d callers", w.name, callers), 0.5, ratios(a, b, p99)))
		}
	}
	if a, b := r.row(key{streamWay, 256}), r.row(key{etcdWay, 256}); a != nil && b != nil {
		r.Goals = append(r.Goals, rig.AtLeast("pairs/s, SDK stream to etcd, 256 callers", 5, ratios(a, b, rate)))
	}
	if best := r.engine(); best != nil {
		r.Goals = append(r.Goals,
			rig.AtLeast(fmt.Sprintf("pairs/s from within, %d callers", best.Callers), 80_000, rig.Of(best.Rounds, rate)),
			rig.AtMost(fmt.Sprintf("p99 from within, ms, %d callers", best.Callers), 20, rig.Of(best.Rounds, p99)))
	}
}

// engine returns, of the contenders from within with more than 256 callers, the one with the most
// pairs among those whose p99 is good enough, or, if there is none, the one with the best p99.
func (r *report) engine() (best *row) {
	better := func(a, b *row) bool {
		pa, pb := rig.Median(rig.Of(a.Rounds, p99)), rig.Median(rig.Of(b.Rounds, p99))
		if (pa <= 20) != (pb <= 20) {
			return pa <= 20
		}
		if pa <= 20 {
			return rig.Median(rig.Of(a.Rounds, rate)) > rig.Median(rig.Of(b.Rounds, rate))
		}
		return pa < pb
	}
	for _, row := range r.Rows {
		if row.Way == engineWay && row.Callers >= 1024 && (best == nil || better(row, best)) {
			best = row
		}
	}
	return best
}

func (r *report) row(k key) *row {
	i := slices.IndexFunc(r.Rows, func(row *row) bool { return row.key == k })
	if i < 0 {
		return nil
	}
	return r.Rows[i]
}

// ratios compares round by round.
func ratios(a, b *row, pick func(measure) float64) []float64 {
	out := make([]float64, len(a.Rounds))
	for i := range out {
		out[i] = pick(a.Rounds[i]) / pick(b.Rounds[i])
	}
	return out
}

func (r *report) print(w io.Writer, format string) error {
	if format == "json" {
		e := json.NewEncoder(w)
		e.SetIndent("", "  ")
		return e.Encode(r)
	}
	if err := r.Condition.Print(w); err != nil {
		return err
	}
	fmt.Fprintf(w, "the disk makes a page durable in: %v\n", r.Flush)
	fmt.Fprintf(w, "etcd %s and txmgr, three nodes each; %d bytes in the first write of a pair; medians of %d rounds, latencies of all of them together; %d repeated since the leader changed\n\n", cmp.Or(r.Etcd, "(not measured)"), r.Value, len(r.Rows[0].Rounds), r.Moved)
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(t, "contender\tcallers\tpairs/s\tleast\tmost\t× etcd\t"+rig.LatencyColumns+"\tserver CPU µs/pair\tclient CPU µs/pair\tCPU, etcd's ×\tcommands/entry\t")
	for _, row := range r.Rows {
		row.print(t, r)
	}
	if err := t.Flush(); err != nil {
		return err
	}
	fmt.Fprint(w, "× etcd: of the same round, with as many callers, or 256. CPU: of three servers, or of both sides together; from within, the leader's is with its callers.\n\n")
	return rig.PrintGoals(w, r.Goals)
}

func (r *row) print(w io.Writer, all *report) {
	rates := rig.Of(r.Rounds, rate)
	median := func(pick func(measure) time.Duration, unit time.Duration) float64 {
		return float64(rig.Median(rig.Of(r.Rounds, pick))) / float64(unit)
	}
	times, dear := "", ""
	etcd := all.row(key{etcdWay, r.Callers})
	if etcd == nil {
		etcd = all.row(key{etcdWay, 256})
	}
	if r.Way != engineWay && etcd != nil {
		times, dear = fmt.Sprintf("%.2f", rig.Median(ratios(r, etcd, rate))), fmt.Sprintf("%.2f", rig.Median(ratios(etcd, r, cpu)))
	}
	packed := ""
	if c := rig.Median(rig.Of(r.Rounds, func(m measure) float64 { return m.Commands })); c > 0 {
		packed = fmt.Sprintf("%.0f", c)
	}
	fmt.Fprintf(w, "%s\t%d\t%.0f\t%.0f\t%.0f\t%s\t%s\t%.1f\t%.1f\t%s\t%s\t\n",
		r.Way, r.Callers, rig.Median(rates), slices.Min(rates), slices.Max(rates), times,
		rig.Merged(rig.Of(r.Rounds, latencies)).Columns(),
		median(func(m measure) time.Duration { return m.ServerCPU }, time.Microsecond), median(func(m measure) time.Duration { return m.ClientCPU }, time.Microsecond),
		dear, packed)
}

func rate(m measure) float64 { return m.PerSecond }

// p99 in milliseconds.
func p99(m measure) float64 { return float64(m.Latencies.Percentile(99)) / float64(time.Millisecond) }

func latencies(m measure) *rig.Latencies { return m.Latencies }

// cpu is the processor time of a pair on both sides.
func cpu(m measure) float64 { return float64(m.ServerCPU + m.ClientCPU) }
