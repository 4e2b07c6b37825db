package main

import (
	"fmt"
	"io"
	"slices"
	"text/tabwriter"

	"github.com/txmgr/txmgr/bench/peers/internal/rig"
)

func (r *hungReport) print(w io.Writer) error {
	if err := r.Condition.Print(w); err != nil {
		return err
	}
	fmt.Fprintf(w, "%d transactions, each prepared at PostgreSQL, expire at once; medians of %d rounds\n\n", r.Due, len(r.Cases[0].Rounds))
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "PostgreSQL's\tall rolled back after\t\t× alone\t\tfirst after\t99 of 100 after\tcalls that hung\tcompleting then\tCPU s: coordinator\tPostgreSQL")
	var met bool
	for _, c := range r.Cases {
		span := func(e expiration) float64 { return e.Span.Seconds() }
		all := rig.Of(c.Rounds, span)
		times := make([]float64, len(all))
		for i := range all {
			times[i] = all[i] / r.Cases[0].Rounds[i].Span.Seconds()
		}
		fmt.Fprintf(t, "%s\t%.2f s\t(%.2f to %.2f)\t%.2f\t(%.2f to %.2f)\t%.2f s\t%.2f s\t%d\t%d\t%.1f\t%.1f\n", c.Name, rig.Median(all), slices.Min(all), slices.Max(all),
			rig.Median(times), slices.Min(times), slices.Max(times), rig.Median(rig.Of(c.Rounds, func(e expiration) float64 { return e.First.Seconds() })),
			rig.Median(rig.Of(c.Rounds, func(e expiration) float64 { return e.Most.Seconds() })),
			rig.Median(rig.Of(c.Rounds, func(e expiration) int { return e.Conns })), rig.Median(rig.Of(c.Rounds, func(e expiration) int { return e.Completing })),
			rig.Median(rig.Of(c.Rounds, func(e expiration) float64 { return e.Coord.Seconds() })), rig.Median(rig.Of(c.Rounds, func(e expiration) float64 { return e.Postgres.Seconds() })))
		if c == r.Cases[1] {
			met = rig.Median(times) <= goalHung
		}
	}
	if err := t.Flush(); err != nil {
		return err
	}
	verdict := "met"
	if !met {
		verdict = "MISSED"
	}
	_, err := fmt.Fprintf(w, "\nrollbacks beside a participant that hangs, to those without: goal ≤ %.1f: %s\n", goalHung, verdict)
	return err
}
