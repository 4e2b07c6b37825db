package main

import (
	"fmt"
	"io"
	"text/tabwriter"
	"time"
)

// The goal: the median time of a global transaction through a server, divided by the manual one.
const (
	goalRatio   = 1.15
	goalWorkers = 8
)

// print writes the result as tables. The report has been summarised.
func (r *report) print(w io.Writer) error {
	if err := r.Condition.Print(w); err != nil {
		return err
	}
	fmt.Fprintf(w, "PostgreSQL %s, MariaDB %s, default durability\n", r.Versions.PostgreSQL, r.Versions.MariaDB)
	fmt.Fprintf(w, "the disk makes a page durable in: %v before, %v after\n", r.DiskBefore, r.DiskAfter)
	if r.Delay > 0 {
		fmt.Fprintf(w, "of which %v is the delay that each fsync and fdatasync of every process is given\n", r.Delay)
	}
	fmt.Fprintf(w, "rounds: %d; medians of them, latencies of all of them together; ×: of the same round, with least and most\n\n", r.Rounds)
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(t, "transactions\tworkers\ttx/s\tp50 ms\tp99 ms\t× p50\t\t× tx/s\tCPU µs/tx: application\tcoordinator\tPostgreSQL\tMariaDB\t× CPU\tlog entries/tx\tsyncs/tx\t")
	for _, row := range r.Rows {
		row.print(t)
	}
	if err := t.Flush(); err != nil {
		return err
	}
	return r.printGoal(w)
}

func (r *row) print(w io.Writer) {
	s := r.Summary
	fmt.Fprintf(w, "%s\t%d\t%.0f\t%.2f\t%.2f\t", r.Name, r.Workers, s.PerSecond, ms(s.P50), ms(s.P99))
	byCPU := "\t"
	if t := s.Times; t != nil {
		fmt.Fprintf(w, "%.2f\t(%.2f to %.2f)\t%.2f\t", t.P50.Median, t.P50.Least, t.P50.Most, t.PerSecond.Median)
		byCPU = fmt.Sprintf("%.2f\t", t.CPU.Median)
	} else {
		fmt.Fprint(w, "\t\t\t")
	}
	for _, d := range []time.Duration{s.CPU.Application, s.CPU.Coordinator, s.CPU.PostgreSQL, s.CPU.MariaDB} {
		fmt.Fprintf(w, "%.0f\t", us(d))
	}
	fmt.Fprint(w, byCPU)
	if s.Log != nil {
		fmt.Fprintf(w, "%.2f\t%.2f\t\n", s.Log.Entries, s.Log.Syncs)
	} else {
		fmt.Fprint(w, "\t\t\n")
	}
	if s.Delivered50 > 0 {
		fmt.Fprintf(w, "until MariaDB has it\t%d\t\t%.2f\t%.2f\t\t\t\t\t\t\t\t\t\t\t\n", r.Workers, ms(s.Delivered50), ms(s.Delivered99))
	}
}

// printGoal prints whether the goal was met, if it was measured.
func (r *report) printGoal(w io.Writer) error {
	row := r.row("server", goalWorkers)
	if row == nil || row.Summary.Times == nil {
		return nil
	}
	t, verdict := row.Summary.Times.P50, "met"
	if t.Median > goalRatio {
		verdict = "MISSED"
	}
	_, err := fmt.Fprintf(w, "\ntime of a transaction through a server to the manual one, %d workers: %.2f (%.2f to %.2f), goal ≤ %.2f: %s\n",
		goalWorkers, t.Median, t.Least, t.Most, goalRatio, verdict)
	return err
}

func ms(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

func us(d time.Duration) float64 { return float64(d.Nanoseconds()) / 1000 }
