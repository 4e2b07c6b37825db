package adaptive

import "fmt"

// NewMeanLatency makes the source's optimizer of the mean latency. It wraps
// [ErrConfig] if a limit makes no sense.
func NewMeanLatency(cfg MeanLatency) (Optimizer, error) {
	mean := func(w *Window) float64 { return float64(w.Sojourn.Mean()) }
	return newLatency(cfg.Source, cfg.Threshold, "mean latency", mean)
}

// NewP99Latency makes the source's optimizer of the 99th percentile of latencies.
// It wraps [ErrConfig] if a limit makes no sense.
func NewP99Latency(cfg P99Latency) (Optimizer, error) {
	p99 := func(w *Window) float64 { return float64(w.Sojourn.Quantile(0.99)) }
	return newLatency(cfg.Source, cfg.Threshold, "the 99th percentile of latencies", p99)
}

func newLatency(cfg Source, threshold float64, name string, metric func(*Window) float64) (Optimizer, error) {
	source, err := cfg.withDefaults(&threshold, 0.05)
	if err != nil {
		return nil, err
	}
	return &latency{cycle: cycle{Source: source}, threshold: threshold, name: name, metric: metric}, nil
}

type latency struct {
	cycle
	threshold float64
	name      string
	metric    func(*Window) float64
	before    float64 // metric of the last window
}

// Observe goes round in four windows: larger, judge, smaller, judge.
func (o *latency) Observe(w *Window) Decision {
	d, ok := o.begin(w)
	now := o.metric(w)
	if !ok {
		if w.Length() > 0 {
			o.before = now
		}
		return d
	}
	fall := (o.before - now) / o.before
	better := !(fall < o.threshold)
	if !o.Strict && !(o.before > 0 && now > 0) {
		better = false // nothing is known, so nothing has become better
	}
	gain := fmt.Sprintf("%s has changed by %+.1f%%", o.name, -100*fall)
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
			o.judge(&d, &o.up, o.shrink(d.Limit), better, gain)
		}
	case dec:
		next = decCheck
		if o.down.open() {
			o.probe(&d, o.shrink(d.Limit))
		}
	case decCheck:
		if o.down.open() {
			o.judge(&d, &o.down, o.grow(d.Limit), better, gain)
		}
	}
	o.before = now
	return o.end(w, d, next)
}
