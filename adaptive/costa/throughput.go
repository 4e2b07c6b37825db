package costa

import (
	"fmt"
	"slices"

	"github.com/txmgr/txmgr/adaptive"
)

// NewThroughput makes the dissertation's optimizer of throughput. It wraps [adaptive.ErrConfig]
// if a limit is invalid.
func NewThroughput(cfg Throughput) (adaptive.Optimizer, error) {
	source, err := cfg.withDefaults(&cfg.Threshold, 0.10)
	if err != nil {
		return nil, err
	}
	return &throughput{cycle: cycle{Config: source}, threshold: cfg.Threshold}, nil
}

type throughput struct {
	cycle
	threshold float64
	before    float64 // completions per second of the last window
	table     []row
}

// row is what the pool has achieved at a size: the mean of several windows.
type row struct {
	size  int
	rate  float64
	count int
}

// Observe grows the pool in every second window, takes it back in the next unless
// throughput has risen, and looks up an earlier size when throughput falls.
func (o *throughput) Observe(w *adaptive.Window) adaptive.Decision {
	d, ok := o.begin(w)
	rate := w.Rate()
	if !ok {
		if w.Length() > 0 {
			o.before = rate
		}
		return d
	}
	size, looked := d.Limit, false
	if fall := (o.before - rate) / o.before; fall > o.threshold {
		if enough, found := o.lookup(rate); found {
			looked = true
			if enough != size {
				d = adaptive.Decision{Limit: enough, Why: fmt.Sprintf("throughput has fallen by %.1f%%: %d was enough for as much", 100*fall, enough)}
			}
		}
	}
	if looked && !o.Strict {
		o.probed = 0
	} else {
		o.step(&d, rate)
	}
	o.learn(size, rate)
	o.before = rate
	next := inc
	switch o.phase {
	case inc:
		next = incCheck
	case none:
		next = none
	}
	return o.end(w, d, next)
}

func (o *throughput) step(d *adaptive.Decision, rate float64) {
	if !o.up.open() {
		return
	}
	switch o.phase {
	case inc:
		o.probe(d, o.grow(d.Limit))
	case incCheck:
		gain := (rate - o.before) / o.before
		o.evaluate(d, &o.up, o.shrink(d.Limit), !(gain < o.threshold), fmt.Sprintf("throughput has changed by %+.1f%%", 100*gain))
	}
}

// lookup finds the smallest size that is known to be enough for a throughput.
func (o *throughput) lookup(rate float64) (int, bool) {
	for i := range len(o.table) - 1 {
		if rate <= (o.table[i].rate+o.table[i+1].rate)/2 {
			return o.table[i].size, true
		}
	}
	return 0, false
}

// learn credits the size that was in force. The published algorithm keeps the rows in
// the order in which sizes were first used; the order of sizes is meant.
func (o *throughput) learn(size int, rate float64) {
	i := slices.IndexFunc(o.table, func(r row) bool { return r.size == size })
	if i >= 0 {
		r := &o.table[i]
		r.rate = (r.rate*float64(r.count) + rate) / float64(r.count+1)
		r.count++
		return
	}
	at := len(o.table)
	if !o.Strict {
		at, _ = slices.BinarySearchFunc(o.table, size, func(r row, size int) int { return r.size - size })
	}
	o.table = slices.Insert(o.table, at, row{size, rate, 1})
}
