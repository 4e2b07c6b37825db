package costa

import (
	"fmt"
	"time"

	"github.com/txmgr/txmgr/adaptive"
)

// NewMeanLatency makes the dissertation's optimizer of the mean latency. It wraps
// [adaptive.ErrConfig] if a limit is invalid.
func NewMeanLatency(cfg MeanLatency) (adaptive.Optimizer, error) {
	return newLatency(cfg.Config, cfg.Threshold, "mean latency", (*adaptive.Histogram).Mean)
}

// NewP99Latency makes the dissertation's optimizer of the 99th percentile of latencies.
// It wraps [adaptive.ErrConfig] if a limit is invalid.
func NewP99Latency(cfg P99Latency) (adaptive.Optimizer, error) {
	p99 := func(h *adaptive.Histogram) time.Duration { return h.Quantile(0.99) }
	return newLatency(cfg.Config, cfg.Threshold, "the 99th percentile of latencies", p99)
}

func newLatency(cfg Config, threshold float64, name string, metric func(*adaptive.Histogram) time.Duration) (adaptive.Optimizer, error) {
	source, err := cfg.withDefaults(&threshold, 0.05)
	if err != nil {
		return nil, err
	}
	return &latency{cycle: cycle{Config: source}, threshold: threshold, name: name, metric: metric}, nil
}

type latency struct {
	cycle
	threshold float64
	name      string
	metric    func(*adaptive.Histogram) time.Duration
	before    latencies // of the last window
}

// latencies are what a window is evaluated by: the metric of the times from submission to
// end, that of the service times, both in nanoseconds, and completions per second.
type latencies struct{ sojourn, service, rate float64 }

func (o *latency) of(w *adaptive.Window) latencies {
	return latencies{float64(o.metric(w.Sojourn)), float64(o.metric(w.Service)), w.Rate()}
}

// behind is the latency of a task with that many tasks waiting before it.
func (l latencies) behind(waiting float64) float64 {
	return l.service + waiting/l.rate*float64(time.Second)
}

// backlog reports whether tasks had waited for longer than the window is, on average: then
// their wait reflects earlier limits, and when all arrived at once it grows by a second in
// each second under any limit.
func backlog(w *adaptive.Window) bool { return w.Sojourn.Mean()-w.Service.Mean() > w.Length() }

// compare returns the latency of the last window and of this one, and its name. With a backlog it
// is, for both, that of a task at the end of the present queue, as the package documentation says.
func (o *latency) compare(w *adaptive.Window, now latencies) (before, after float64, name string) {
	if o.Strict || !backlog(w) || o.before.rate == 0 {
		return o.before.sojourn, now.sojourn, o.name
	}
	waiting := w.Waiting()
	return o.before.behind(waiting), now.behind(waiting), o.name + " behind the backlog"
}

// Observe goes round in four windows: larger, evaluate, smaller, evaluate.
func (o *latency) Observe(w *adaptive.Window) adaptive.Decision {
	d, ok := o.begin(w)
	now := o.of(w)
	if !ok {
		if w.Length() > 0 {
			o.before = now
		}
		return d
	}
	before, after, name := o.compare(w, now)
	fall := (before - after) / before
	better := !(fall < o.threshold)
	if !o.Strict && !(before > 0 && after > 0) {
		better = false // there is nothing to compare, so nothing has become better
	}
	gain := fmt.Sprintf("%s has changed by %+.1f%%", name, -100*fall)
	next := inc
	switch o.phase {
	case none:
		next = none
	case inc:
		next = incCheck
		if o.up.open() {
			o.probe(&d, o.grow(d.Limit))
		}
	case incCheck:
		next = dec
		if o.up.open() {
			o.evaluate(&d, &o.up, o.shrink(d.Limit), better, gain)
		}
	case dec:
		next = decCheck
		if o.down.open() {
			o.probe(&d, o.shrink(d.Limit))
		}
	case decCheck:
		if o.down.open() {
			o.evaluate(&d, &o.down, o.grow(d.Limit), better, gain)
		}
	}
	o.before = now
	return o.end(w, d, next)
}
