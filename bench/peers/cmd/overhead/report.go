package main

import (
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"time"

	"github.com/txmgr/txmgr/bench/peers/internal/rig"
)

// report is the result of one run.
type report struct {
	Condition rig.Condition `json:"condition"`
	Versions  versions      `json:"versions"`
	// Delay is by how much synchronisations were made longer. DiskBefore and DiskAfter are how long
	// the disk took to make a page durable, with it.
	Delay      time.Duration  `json:"disk_delay_ns"`
	DiskBefore *rig.Latencies `json:"disk_before"`
	DiskAfter  *rig.Latencies `json:"disk_after"`
	Rounds     int            `json:"rounds"`
	Rows       []*row         `json:"rows"`
	// Moved is the number of transactions of both databases on which they agree afterwards.
	Moved map[place]int64 `json:"moved"`
}

type versions struct {
	PostgreSQL string `json:"postgresql"`
	MariaDB    string `json:"mariadb"`
}

// row is one contender with one number of workers, in all rounds.
type row struct {
	*contender
	Workers int     `json:"workers"`
	Summary summary `json:"summary"`
	Results []round `json:"rounds"`
}

// round is one measurement of a contender. All figures but the sample are per transaction.
type round struct {
	rig.Sample
	CPU usage `json:"cpu"`
	// Log is nil without a coordinator.
	Log *logged `json:"log,omitempty"`
	// Delivered is how long it took, from the beginning of the caller, until the other database had
	// the change; nil but for the outbox.
	Delivered *rig.Latencies `json:"delivered,omitempty"`
}

// summary are the figures of all rounds: latencies of all together, medians of the others.
type summary struct {
	PerSecond float64       `json:"per_second"`
	P50       time.Duration `json:"p50_ns"`
	P99       time.Duration `json:"p99_ns"`
	CPU       usage         `json:"cpu"`
	Log       *logged       `json:"log,omitempty"`
	// Times are nil for a contender that is compared with none.
	Times *times `json:"times,omitempty"`

	Delivered50 time.Duration `json:"delivered_p50_ns,omitempty"`
	Delivered99 time.Duration `json:"delivered_p99_ns,omitempty"`
}

// times are a contender's figures divided by those of the one that it is compared with, of the same
// round and number of workers.
type times struct {
	P50       spread `json:"p50"`
	PerSecond spread `json:"per_second"`
	CPU       spread `json:"cpu"`
}

// spread is a figure in several rounds.
type spread struct {
	Median float64 `json:"median"`
	Least  float64 `json:"least"`
	Most   float64 `json:"most"`
}

func spreadOf(values []float64) spread {
	if len(values) == 0 {
		return spread{}
	}
	return spread{rig.Median(values), slices.Min(values), slices.Max(values)}
}

// summarise sums up the rounds of each row.
func (r *report) summarise() {
	for _, row := range r.Rows {
		row.Summary = row.sum()
		if to := r.row(row.Beside, row.Workers); to != nil {
			compare := func(pick func(round) float64) spread { return spreadOf(ratios(row.Results, to.Results, pick)) }
			row.Summary.Times = &times{
				P50:       compare(func(m round) float64 { return float64(m.Latencies.Percentile(50)) }),
				PerSecond: compare(func(m round) float64 { return m.PerSecond }),
				CPU:       compare(func(m round) float64 { return float64(m.CPU.all()) }),
			}
		}
	}
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

// ratios divides round by round.
func ratios(of, to []round, pick func(round) float64) (out []float64) {
	for i := range min(len(of), len(to)) {
		out = append(out, pick(of[i])/pick(to[i]))
	}
	return out
}

func (r *row) sum() summary {
	together := rig.Merged(rig.Of(r.Results, func(m round) *rig.Latencies { return m.Latencies }))
	delivered := rig.Merged(rig.Of(r.Results, func(m round) *rig.Latencies { return m.Delivered }))
	used := func(pick func(usage) time.Duration) time.Duration {
		return rig.Median(rig.Of(r.Results, func(m round) time.Duration { return pick(m.CPU) }))
	}
	s := summary{
		PerSecond: rig.Median(rig.Of(r.Results, func(m round) float64 { return m.PerSecond })),
		P50:       together.Percentile(50), P99: together.Percentile(99),
		CPU: usage{
			Application: used(func(u usage) time.Duration { return u.Application }), Coordinator: used(func(u usage) time.Duration { return u.Coordinator }),
			PostgreSQL: used(func(u usage) time.Duration { return u.PostgreSQL }), MariaDB: used(func(u usage) time.Duration { return u.MariaDB }),
		},
		Delivered50: delivered.Percentile(50), Delivered99: delivered.Percentile(99),
	}
	var entries, syncs []float64
	for _, m := range r.Results {
		if m.Log != nil {
			entries, syncs = append(entries, m.Log.Entries), append(syncs, m.Log.Syncs)
		}
	}
	if entries != nil {
		s.Log = &logged{Entries: rig.Median(entries), Syncs: rig.Median(syncs)}
	}
	return s
}

// writeJSON writes a result to a file; without a name, to none.
func writeJSON(name string, result any) error {
	if name == "" {
		return nil
	}
	b, err := json.MarshalIndent(result, "", "  ")
	if err == nil {
		err = os.WriteFile(name, append(b, '\n'), 0o644)
	}
	if err != nil {
		return fmt.Errorf("-json %s: %w", name, err)
	}
	return nil
}
