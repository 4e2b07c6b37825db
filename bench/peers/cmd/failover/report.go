package main

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"text/tabwriter"
	"time"

	"github.com/txmgr/txmgr/bench/peers/internal/rig"
)

// report is the result of one run.
type report struct {
	Condition rig.Condition `json:"condition"`
	Callers   int           `json:"callers"`
	Few       *series       `json:"few"`
	CatchUp   *catchUp      `json:"away"`
	Many      *series       `json:"many"`
	Goals     []rig.Goal    `json:"goals"`
}

func (r *report) series() []*series {
	return slices.DeleteFunc([]*series{r.Few, r.Many}, func(s *series) bool { return s == nil })
}

// noise is the factor by which the median of a few elections may be longer by chance: each takes
// from one to two election timeouts.
const noise = 1.25

func (r *report) checkGoals() {
	for _, s := range r.series() {
		r.Goals = append(r.Goals,
			rig.AtMost(fmt.Sprintf("writes served again, %d open, p99 of %d kills, s", s.Open, len(s.Kills)), 3, []float64{s.served().Percentile(99).Seconds()}),
			rig.AtMost(fmt.Sprintf("of %d open: aborted, lost, or not proved to be there", s.Open), 0, one(s.Aborted+s.Lost+s.Unproved)),
			rig.AtMost(fmt.Sprintf("of %d commits that were answered before a kill: lost", s.count(func(k kill) int { return k.Acked })), 0, one(s.count(func(k kill) int { return k.Lost }))),
			rig.AtMost(fmt.Sprintf("of %d deadlines around the kills: early", s.count(func(k kill) int { return k.Probes })), 0, one(s.count(func(k kill) int { return k.Early }))),
			rig.AtMost("latest deadline, beyond one interval and the time without a leader, s", 0.5, s.of(func(k kill) time.Duration { return k.Excess })),
		)
	}
	if r.Many != nil {
		r.Goals = append(r.Goals, rig.AtMost(fmt.Sprintf("time without writes, %d open to %d, medians", r.Many.Open, r.Few.Open), noise,
			[]float64{rig.Median(r.Many.of(served)) / rig.Median(r.Few.of(served))}))
	}
	if r.CatchUp != nil {
		r.Goals = append(r.Goals, rig.AtMost(fmt.Sprintf("a follower that missed %d entries caught up, s", r.CatchUp.Entries), 30, []float64{r.CatchUp.CaughtUp.Seconds()}))
	}
}

func one(n int) []float64 { return []float64{float64(n)} }

func served(k kill) time.Duration { return k.Served }

// of returns one figure of each kill, in seconds.
func (s *series) of(pick func(kill) time.Duration) []float64 {
	return rig.Of(s.Kills, func(k kill) float64 { return pick(k).Seconds() })
}

func (s *series) count(pick func(kill) int) (n int) {
	for _, k := range s.Kills {
		n += pick(k)
	}
	return n
}

// served returns the times until writes were served again. Of fewer than a thousand kills p99.9
// would be the maximum, so it is not shown.
func (s *series) served() *rig.Latencies {
	l := new(rig.Latencies)
	for _, k := range s.Kills {
		l.Record(k.Served)
	}
	return l
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
	fmt.Fprintf(w, "three nodes; %d callers with the SDK and all addresses; the leader is killed, and started again; seconds\n\n", r.Callers)
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(t, "open\tkills\tserved again p50\tp90\tp99\tmost\tevery caller p50\tmost\tkilled node rejoined p50\tmost\tlatest deadline p50\tmost\tpairs\tfailed calls\t")
	for _, s := range r.series() {
		all, rejoined := s.of(func(k kill) time.Duration { return k.All }), s.of(func(k kill) time.Duration { return k.Rejoined })
		again, late := s.served(), s.of(func(k kill) time.Duration { return k.Late })
		fmt.Fprintf(t, "%d\t%d\t%.2f\t%.2f\t%.2f\t%.2f\t%.2f\t%.2f\t%.2f\t%.2f\t%.2f\t%.2f\t%d\t%s\t\n", s.Open, len(s.Kills),
			again.Percentile(50).Seconds(), again.Percentile(90).Seconds(), again.Percentile(99).Seconds(), again.Max().Seconds(), rig.Median(all), slices.Max(all),
			rig.Median(rejoined), slices.Max(rejoined), rig.Median(late), slices.Max(late), s.Pairs, s.failed())
	}
	if err := t.Flush(); err != nil {
		return err
	}
	if r.Many != nil {
		fmt.Fprintf(w, "opening %d took %.1f s\n", r.Many.Open, r.Many.Filling.Seconds())
	}
	if a := r.CatchUp; a != nil {
		fmt.Fprintf(w, "a follower was away for %d entries in %.0f s, and had caught up, under load, %.1f s after its start\n", a.Entries, a.Downtime.Seconds(), a.CaughtUp.Seconds())
	}
	fmt.Fprintln(w)
	return rig.PrintGoals(w, r.Goals)
}

func (s *series) failed() string {
	if len(s.Failures) == 0 {
		return "0"
	}
	out := ""
	for _, code := range slices.Sorted(maps.Keys(s.Failures)) {
		out += fmt.Sprintf("%d %s ", s.Failures[code], code)
	}
	return out
}
