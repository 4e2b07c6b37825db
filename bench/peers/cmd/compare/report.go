package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"text/tabwriter"
	"time"

	"github.com/txmgr/txmgr/bench/peers/internal/rig"
)

// report is the result of one run.
type report struct {
	Condition rig.Condition     `json:"condition"`
	Versions  map[string]string `json:"versions"`
	Value     int               `json:"value_bytes"`
	Rows      []*row            `json:"rows"`
	Goals     []rig.Goal        `json:"goals"`
}

// row is one contender in all rounds.
type row struct {
	*contender
	Rounds []measure `json:"rounds"`
}

// measure is one contender in one round.
type measure struct {
	rig.Sample
	ServerCPU time.Duration `json:"server_cpu_ns"` // per pair
	ClientCPU time.Duration `json:"client_cpu_ns"`
}

func (r *report) measure(ctx context.Context, cs []*contender, o options) error {
	for _, c := range cs {
		r.Rows = append(r.Rows, &row{contender: c})
	}
	for n := range o.rounds {
		// A new order each round, so that no contender always follows the same one.
		for _, i := range rand.Perm(len(r.Rows)) {
			row := r.Rows[i]
			m, err := row.round(ctx, time.Duration(o.seconds*float64(time.Second)))
			if err != nil {
				return fmt.Errorf("%s with %d callers: %w", row.Name, row.Callers, err)
			}
			progressf("round %d of %d: %-20s %5d callers: %7.0f pairs/s, %v", n+1, o.rounds, row.Name, row.Callers, m.PerSecond, m.Latencies)
			row.Rounds = append(row.Rounds, m)
		}
	}
	r.checkGoals()
	return nil
}

func (r *row) round(ctx context.Context, span time.Duration) (m measure, err error) {
	var server, own [2]time.Duration
	var failed error
	n := 0
	meter := func() {
		var err error
		if server[n], err = r.server.CPU(); err != nil {
			failed = err
		}
		if own[n], err = rig.OwnCPU(); err != nil {
			failed = err
		}
		n++
	}
	m.Sample, err = rig.Load{Callers: r.Callers, Warm: span / 5, Span: span, Pair: r.pair, Meter: meter}.Run(ctx)
	if err == nil {
		err = failed
	}
	if err != nil {
		return m, err
	}
	m.ServerCPU = (server[1] - server[0]) / time.Duration(m.Pairs)
	m.ClientCPU = (own[1] - own[0]) / time.Duration(m.Pairs)
	return m, nil
}

func (r *report) checkGoals() {
	for _, g := range []struct {
		name     string
		of, to   key
		pick     func(measure) float64
		at       float64
		downward bool
	}{
		{"pairs/s, stream to etcd, 256 callers", key{streamWay, 256}, key{etcdWay, 256}, rate, 5, false},
		{"p99, stream to etcd, 256 callers", key{streamWay, 256}, key{etcdWay, 256}, p99, 0.5, true},
		{"pairs/s, JSON to etcd, 64 callers", key{jsonWay, 64}, key{etcdWay, 64}, rate, 1.2, false},
	} {
		judge := rig.AtLeast
		if g.downward {
			judge = rig.AtMost
		}
		r.Goals = append(r.Goals, judge(g.name, g.at, r.ratios(g.of, g.to, g.pick)))
	}
}

func (r *report) row(k key) *row {
	for _, row := range r.Rows {
		if row.Way == k.way && row.Callers == k.callers {
			return row
		}
	}
	return nil
}

// ratios compares round by round.
func (r *report) ratios(of, to key, pick func(measure) float64) []float64 {
	a, b := r.row(of), r.row(to)
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
	fmt.Fprintf(w, "etcd %s and txmgr, one node each; %d bytes in the first write of a pair; medians of %d rounds, latencies of all of them together\n\n", r.Versions["etcd"], r.Value, len(r.Rows[0].Rounds))
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(t, "contender\tcallers\tpairs/s\tleast\tmost\t× etcd\t"+rig.LatencyColumns+"\tserver CPU µs/pair\tclient CPU µs/pair\tCPU, etcd's ×\t")
	for _, row := range r.Rows {
		row.print(t, r)
	}
	if err := t.Flush(); err != nil {
		return err
	}
	fmt.Fprint(w, "× etcd: of the same round, with as many callers, or 256. CPU: of both sides together; it is steadier than the clock when the machine is shared.\n\n")
	return rig.PrintGoals(w, r.Goals)
}

func (r *row) print(w io.Writer, all *report) {
	rates := rig.Of(r.Rounds, rate)
	least, most := rates[0], rates[0]
	for _, v := range rates {
		least, most = min(least, v), max(most, v)
	}
	median := func(pick func(measure) time.Duration, unit time.Duration) float64 {
		return float64(rig.Median(rig.Of(r.Rounds, pick))) / float64(unit)
	}
	me, etcd := key{r.Way, r.Callers}, key{etcdWay, r.Callers}
	if all.row(etcd) == nil {
		etcd.callers = 256
	}
	fmt.Fprintf(w, "%s\t%d\t%.0f\t%.0f\t%.0f\t%.2f\t%s\t%.1f\t%.1f\t%.2f\t\n",
		r.Name, r.Callers, rig.Median(rates), least, most, rig.Median(all.ratios(me, etcd, rate)),
		rig.Merged(rig.Of(r.Rounds, latencies)).Columns(),
		median(func(m measure) time.Duration { return m.ServerCPU }, time.Microsecond), median(func(m measure) time.Duration { return m.ClientCPU }, time.Microsecond),
		rig.Median(all.ratios(etcd, me, cpu)))
}

func rate(m measure) float64 { return m.PerSecond }

func p99(m measure) float64 { return float64(m.Latencies.Percentile(99)) }

func latencies(m measure) *rig.Latencies { return m.Latencies }

// cpu is the processor time of a pair on both sides.
func cpu(m measure) float64 { return float64(m.ServerCPU + m.ClientCPU) }
