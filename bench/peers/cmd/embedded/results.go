package main

import (
	"fmt"
	"slices"
	"time"

	"github.com/txmgr/txmgr/bench/peers/internal/rig"
)

// result is a line of the table. goal is empty if there is none.
type result struct {
	what, measured, goal string
	met                  bool
}

func (r *report) results() []result {
	out := r.atRest()
	out = append(out, r.underLoad()...)
	for i, s := range r.Restarts {
		when := []string{"after filling", "at the end"}[min(i, 1)]
		out = append(out, result{
			fmt.Sprintf("restart %s, %d open", when, s.Open), fmt.Sprintf("%.1f s, from %d MiB of log and snapshots", s.Took.Seconds(), s.Log>>20),
			"≤ 10 s", s.Took <= 10*time.Second,
		})
	}
	for _, g := range r.Groups {
		out = append(out,
			result{
				fmt.Sprintf("%d due at once, %d branches each: all decided after the tick", g.Count, g.Branches), fmt.Sprintf("%.3f s", g.Decided.Seconds()),
				"≤ 1 s", g.Decided <= time.Second,
			},
			result{"  log entries until then", fmt.Sprintf("%d, of which %d carry nothing but the tick", g.Entries, g.Empty), "", true},
			result{"  every branch known to be rolled back", fmt.Sprintf("%.3f s, %d entries in all", g.Finished.Seconds(), g.All), "", true},
		)
	}
	return out
}

func (r *report) atRest() []result {
	each := float64(r.After.Heap-r.Before.Heap) / float64(r.Opened)
	resident := float64(r.After.Resident-r.Before.Resident) / float64(r.Opened)
	collection := rig.Median(r.After.Collections)
	load := r.Idle.CPU.Seconds() / r.Idle.Span.Seconds()
	allowed := uint64(r.Idle.Span/r.Idle.Checkpoint) + 1
	return []result{
		{"opening them, 512 callers", fmt.Sprintf("%.1f s, %.0f/s", r.Filling.Seconds(), float64(r.Opened)/r.Filling.Seconds()), "", true},
		{"live heap per open transaction", fmt.Sprintf("%.0f B", each), "≤ 400 B", each <= 400},
		{"  resident memory per open transaction, with garbage and the log's pages", fmt.Sprintf("%.0f B", resident), "", true},
		{"CPU of a full garbage collection", fmt.Sprintf("%.1f ms (before filling %.1f)", msOf(collection), msOf(rig.Median(r.Before.Collections))), "≤ 20 ms", collection <= 20*time.Millisecond},
		{fmt.Sprintf("idle with %d deadlines of %d open transactions, for %v", r.Idle.Groups, r.Idle.Open, r.Idle.Span), fmt.Sprintf("%.2f %% of a core", 100*load), "< 1 %", load < 0.01},
		{"  log entries meanwhile", fmt.Sprint(r.Idle.Entries), fmt.Sprintf("≤ %d, one in %v", allowed, r.Idle.Checkpoint), r.Idle.Entries <= allowed},
		{"  bytes written to the disk meanwhile", fmt.Sprintf("%d KiB", r.Idle.Written>>10), "", true},
	}
}

func (r *report) underLoad() []result {
	rate := func(p *pairs) float64 { return p.PerSecond }
	sums := func(of []*pairs) (s float64) {
		for _, p := range of {
			s += p.PerSecond
		}
		return s
	}
	ratios := r.ratios(loaded, rate)
	ratio := rig.Median(ratios)
	pause := slices.Max(rig.Of(r.Pauses, func(p *pauses) time.Duration { return p.Pause }))
	median := func(pick func(*pauses) time.Duration) float64 { return msOf(rig.Median(rig.Of(r.Pauses, pick))) }
	longest := func(pick func(*pauses) time.Duration) float64 { return msOf(slices.Max(rig.Of(r.Pauses, pick))) }
	silence := func(p *pauses) time.Duration { return p.During.LongestGap }
	quiet := func(p *pauses) time.Duration { return p.Without.LongestGap }
	slow := func(p *pauses) time.Duration { return p.During.Latencies.Max() }
	usual := func(p *pauses) time.Duration { return p.Without.Latencies.Max() }
	lone := r.Empty[1]
	return []result{
		{
			fmt.Sprintf("throughput, full to empty, %d callers", loaded),
			fmt.Sprintf("%.2f (%.2f to %.2f; all rounds together %.2f)", ratio, slices.Min(ratios), slices.Max(ratios), sums(r.Full[loaded])/sums(r.Empty[loaded])),
			"≥ 0.90", ratio >= 0.9,
		},
		{"fdatasync calls of a lone begin and commit", fmt.Sprintf("%.2f", rig.Median(rig.Of(lone, func(p *pairs) float64 { return 2 * float64(p.Syncs) / float64(p.Commands) }))), "", true},
		{"writes held up while a snapshot is taken, worst of all rounds", fmt.Sprintf("%.3f ms", msOf(pause)), "≤ 1 ms", pause <= time.Millisecond},
		{
			fmt.Sprintf("  longest time without any answer, %d callers, median (worst)", loaded),
			fmt.Sprintf("%.1f (%.1f) ms during a snapshot; %.1f (%.1f) without", median(silence), longest(silence), median(quiet), longest(quiet)), "", true,
		},
		{"  slowest pair, median (worst)", fmt.Sprintf("%.1f (%.1f) ms during a snapshot; %.1f (%.1f) without", median(slow), longest(slow), median(usual), longest(usual)), "", true},
		{
			"  one snapshot", fmt.Sprintf("%.2f s, %d MiB", rig.Median(rig.Of(r.Pauses, func(p *pauses) time.Duration { return p.Snapshot })).Seconds(),
				rig.Median(rig.Of(r.Pauses, func(p *pauses) int64 { return p.Bytes }))>>20), "", true,
		},
	}
}

func msOf(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }
