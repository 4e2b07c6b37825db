package adaptivebench

import (
	"slices"
	"time"

	"github.com/txmgr/txmgr/adaptive"
)

// Report is the result of a run.
type Report struct {
	Conditions
	// Time and Speed are those of the configuration, Period the length of a window of
	// the dissertation's optimizers that follows from them.
	Time   time.Duration `json:"time_ns"`
	Speed  float64       `json:"speed"`
	Period time.Duration `json:"period_ns"`
	// Simulated means that the results are not measured: the conditions then describe the
	// machine that simulated them.
	Simulated bool `json:"simulated,omitempty"`
	// Planned is the planned number of experiments; fewer results mean that the run
	// was interrupted.
	Planned int      `json:"planned"`
	Results []Result `json:"results"`
}

// Figures are the figures of some part of an experiment.
type Figures struct {
	// Rate is in requests a second.
	Rate float64 `json:"rate"`
	// Mean and P99 are latencies at the server, zero if no request ended.
	Mean time.Duration `json:"mean_ns"`
	P99  time.Duration `json:"p99_ns"`
	// UserP99 is what users saw.
	UserP99 time.Duration `json:"user_p99_ns"`
	// Size is the pool's limit, on the average of the time.
	Size float64 `json:"size"`
}

// Sample is a point of a picture.
type Sample struct {
	// At is its end, in seconds of the dissertation's time.
	At    float64 `json:"at_seconds"`
	Users int     `json:"users"`
	Figures
}

// Part is a phase of an experiment.
type Part struct {
	Phase
	Figures
	Rest
}

// Rest is the size that a pool had for the longest time.
type Rest struct {
	At int `json:"rests_at"`
	// For is the part of the time, from 0 to 1.
	For float64 `json:"rests_for"`
	// After is how long it took until the pool first had this size, in seconds of the
	// dissertation's time.
	After float64 `json:"rests_after_seconds"`
}

// Result is the result of an experiment.
type Result struct {
	Task
	Figures
	Rest
	// Took is how long it was measured, in wall-clock time.
	Took time.Duration `json:"took_ns"`
	// Answered is how many requests ended in that time.
	Answered uint64 `json:"answered"`
	// PerWindow is the average number of requests in one window of the optimizer.
	PerWindow float64 `json:"per_window"`
	// Last is the size at the end.
	Last    int      `json:"last_size"`
	Start   int      `json:"start_size"`
	Parts   []Part   `json:"parts"`
	Samples []Sample `json:"samples"`
	Resizes []Resize `json:"resizes"`
	// Uses cover the whole time, a second or more each; none if nothing is known.
	Uses []Use `json:"uses"`

	log string // the histograms of all samples; see histogramLog
}

// Groups are the results that belong in one picture each, in the order of their contenders.
func (r Report) Groups() [][]Result {
	var groups [][]Result
	for _, x := range r.Results {
		i := slices.IndexFunc(groups, func(g []Result) bool { return g[0].group() == x.group() })
		if i < 0 {
			groups = append(groups, []Result{x})
		} else {
			groups[i] = append(groups[i], x)
		}
	}
	return groups
}

// tally is what was counted in a part of an experiment.
type tally struct {
	from, to      time.Duration // since it began
	phase         int
	server, users adaptive.Histogram
}

func (t *tally) add(other *tally) {
	t.server.Add(&other.server)
	t.users.Add(&other.users)
	t.to = max(t.to, other.to)
}

func (t *tally) figures(sizes Sizes) Figures {
	f := Figures{
		Mean: t.server.Mean(), P99: t.server.Quantile(0.99), UserP99: t.users.Quantile(0.99),
		Size: sizes.Mean(t.from, t.to),
	}
	if d := t.to - t.from; d > 0 {
		f.Rate = float64(t.server.Count()) / d.Seconds()
	}
	return f
}

// resultOf sums the counts up. scale is how many seconds of the dissertation one of
// the experiment stands for.
func resultOf(t Task, phases []Phase, tallies []*tally, sizes Sizes, scale float64, window time.Duration) Result {
	out := Result{Task: t, Start: sizes.Start, Last: sizes.Last(), Uses: []Use{}, Samples: []Sample{}, Parts: []Part{}, Resizes: []Resize{}}
	whole := &tally{}
	parts := make([]tally, len(phases))
	for i, s := range tallies {
		out.Samples = append(out.Samples, Sample{At: s.to.Seconds() * scale, Users: phases[s.phase].Users, Figures: s.figures(sizes)})
		part := &parts[s.phase]
		if i == 0 || tallies[i-1].phase != s.phase {
			part.from = s.from
		}
		part.add(s)
		whole.add(s)
	}
	for i := range parts {
		part := &parts[i]
		out.Parts = append(out.Parts, Part{phases[i], part.figures(sizes), sizes.Rest(part.from, part.to, scale)})
	}
	for _, c := range sizes.Changes {
		c.At = max(0, c.at.Seconds()) * scale
		out.Resizes = append(out.Resizes, c)
	}
	out.Figures, out.Rest = whole.figures(sizes), sizes.Rest(0, whole.to, scale)
	out.Took, out.Answered = whole.to, whole.server.Count()
	out.PerWindow = out.Rate * window.Seconds()
	return out
}
