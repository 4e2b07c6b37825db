package main

import (
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"text/tabwriter"
	"time"

	"github.com/txmgr/txmgr/bench/peers/internal/rig"
)

// The goal: the throughput of global transactions through a server, compared with manual commits.
const (
	goalRatio   = 1.15
	goalWorkers = 8
)

// report is the result of one run.
type report struct {
	Condition rig.Condition    `json:"condition"`
	Flushes   []*rig.Latencies `json:"flushes"` // of the disk, at the beginning of each round
	Rows      []*row           `json:"rows"`
	// Moved is the number of transactions on which the two databases of each contender agree
	// afterwards.
	Moved []string `json:"moved"`
}

// row finds a contender; nil if it was not measured.
func (r *report) row(key string, workers int) *row {
	for _, row := range r.Rows {
		if row.Key == key && row.Workers == workers {
			return row
		}
	}
	return nil
}

// ratios compares a row with its beside, round by round; none if that was not measured.
func (r *report) ratios(of *row, pick func(round) float64) (out []float64) {
	to := r.row(of.beside, of.Workers)
	if to == nil {
		return nil
	}
	for i := range of.Rounds {
		out = append(out, pick(of.Rounds[i])/pick(to.Rounds[i]))
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
	fmt.Fprintf(w, "PostgreSQL and MariaDB with default durability; the disk makes a page durable in: %v\nmedians of %d rounds, latencies of all of them together; ×: of the same round, with least and most\n\n",
		rig.Merged(r.Flushes), len(r.Flushes))
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(t, "transactions\tworkers\ttx/s\t"+rig.LatencyColumns+"\t× p50\t\t× tx/s\tCPU µs/tx: client\tcoordinator\tPostgreSQL\tMariaDB\t× CPU\t")
	for _, row := range r.Rows {
		r.line(t, row)
	}
	if err := t.Flush(); err != nil {
		return err
	}
	fmt.Fprintln(w, "\nwhere a transaction waits for the coordinator, ms")
	t = tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(t, "transactions\tworkers\tbegin\tenlist\tdelegate\tcommit\tdone\tof mean\tlog entries/tx\tsyncs/tx\t")
	for _, row := range r.Rows {
		waits(t, row)
	}
	if err := t.Flush(); err != nil {
		return err
	}
	return r.printGoal(w)
}

func (r *report) line(w io.Writer, row *row) {
	median := func(pick func(round) float64) float64 { return rig.Median(rig.Of(row.Rounds, pick)) }
	fmt.Fprintf(w, "%s\t%d\t%.0f\t%s\t", row.Name, row.Workers, median(rate), rig.Merged(rig.Of(row.Rounds, latencies)).Columns())
	if times := r.ratios(row, p50); times != nil {
		fmt.Fprintf(w, "%.2f\t(%.2f to %.2f)\t%.2f\t", rig.Median(times), slices.Min(times), slices.Max(times), rig.Median(r.ratios(row, rate)))
	} else {
		fmt.Fprint(w, "1\t\t1\t")
	}
	for _, pick := range []func(usage) time.Duration{
		func(u usage) time.Duration { return u.Client }, func(u usage) time.Duration { return u.Coordinator },
		func(u usage) time.Duration { return u.PostgreSQL }, func(u usage) time.Duration { return u.MariaDB },
	} {
		fmt.Fprintf(w, "%.0f\t", median(func(m round) float64 { return us(pick(m.CPU)) }))
	}
	if cpus := r.ratios(row, cpu); cpus != nil {
		fmt.Fprintf(w, "%.2f\t\n", rig.Median(cpus))
	} else {
		fmt.Fprint(w, "1\t\n")
	}
}

// waits shows which part of a transaction's time is spent waiting for the coordinator.
func waits(w io.Writer, row *row) {
	if row.m == nil {
		return
	}
	median := func(pick func(round) float64) float64 { return rig.Median(rig.Of(row.Rounds, pick)) }
	fmt.Fprintf(w, "%s\t%d\t", row.Name, row.Workers)
	for _, name := range callNames {
		fmt.Fprintf(w, "%.2f\t", median(func(m round) float64 { return ms(m.Waited[name]) }))
	}
	fmt.Fprintf(w, "%.2f\t%.2f\t%.2f\t\n", median(func(m round) float64 { return ms(m.Mean) }),
		median(func(m round) float64 { return m.Entries }), median(func(m round) float64 { return m.Syncs }))
}

// printGoal prints whether the goal was met.
func (r *report) printGoal(w io.Writer) error {
	row := r.row(serverWay, goalWorkers)
	if row == nil {
		return nil
	}
	times := r.ratios(row, p50)
	if times == nil {
		return nil
	}
	verdict := "met"
	if rig.Median(times) > goalRatio {
		verdict = "MISSED"
	}
	_, err := fmt.Fprintf(w, "\ntime of a transaction through a server to that by hand, %d workers: %.2f (%.2f to %.2f), goal ≤ %.2f: %s\n",
		goalWorkers, rig.Median(times), slices.Min(times), slices.Max(times), goalRatio, verdict)
	return err
}

func rate(m round) float64 { return m.PerSecond }

func p50(m round) float64 { return float64(m.Latencies.Percentile(50)) }

func latencies(m round) *rig.Latencies { return m.Latencies }

func cpu(m round) float64 { return float64(m.CPU.all()) }

func ms(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

func us(d time.Duration) float64 { return float64(d.Nanoseconds()) / 1000 }
