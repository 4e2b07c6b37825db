package adaptive

import (
	"fmt"
	"math"
	"time"
)

// Knee configures the optimizer that looks for the smallest limit whose capacity is
// within a few percent of the best. The zero value is usable.
type Knee struct {
	// Period is the length of a window, at least 20 ms. Defaults to 500 ms.
	Period time.Duration
	// Min and Max bound the limit. Default to 1 and 1024.
	Min, Max int
	// ProbeAfter is how much time under load passes before the next smaller or larger
	// limit is tried. It doubles with each probe that changes
	// nothing, up to sixteen times as long. Defaults to a minute.
	ProbeAfter time.Duration
	// WorkerCost is what a further worker must be worth, as a part of what the present ones do on
	// average: growth of the rate over growth of the limit, both as logarithms. With 0.15, twice as many
	// workers must complete 11 % more; with 0.05, which suits workers that only wait for a database, and
	// keep an idle connection open at most, 3.5 % more. Capacities differ by 2.5 % from one moment to the next, so that
	// below 0.1 chance decides where a doubling gains less than 5 %. From 0.01 to 1. Defaults to 0.15.
	WorkerCost float64
	// MaxCPU is the use of the processors, from 0 to 1, from which on no larger limit
	// is tried, where Window.CPU is known. Defaults to no such veto.
	MaxCPU float64
}

// NewKnee makes the optimizer. It wraps [ErrConfig] if a limit is invalid.
func NewKnee(cfg Knee) (Optimizer, error) {
	cfg.Period = orElse(cfg.Period, 500*time.Millisecond)
	cfg.Min = orElse(cfg.Min, 1)
	cfg.Max = orElse(cfg.Max, DefaultMax)
	cfg.ProbeAfter = orElse(cfg.ProbeAfter, time.Minute)
	cfg.WorkerCost = orElse(cfg.WorkerCost, 0.15)
	switch {
	case cfg.Period < shortestPeriod:
		return nil, fmt.Errorf("%w: a period of %v, which must be at least %v: shorter windows hold too little", ErrConfig, cfg.Period, shortestPeriod)
	case cfg.ProbeAfter < cfg.Period:
		return nil, fmt.Errorf("%w: a probe after %v, which must not be shorter than the period, %v", ErrConfig, cfg.ProbeAfter, cfg.Period)
	case !(cfg.WorkerCost >= 0.01 && cfg.WorkerCost <= 1):
		return nil, fmt.Errorf("%w: a worker's cost of %v, which must be from 0.01 to 1", ErrConfig, cfg.WorkerCost)
	case !(cfg.MaxCPU >= 0 && cfg.MaxCPU <= 1):
		return nil, fmt.Errorf("%w: a largest use of the processors of %v, which must be from 0 to 1", ErrConfig, cfg.MaxCPU)
	}
	if err := CheckOptimizer(cfg.Period, cfg.Min, cfg.Max); err != nil {
		return nil, err
	}
	return &knee{Knee: cfg}, nil
}

// shortestPeriod is so long that the windows which are kept of a limit suffice as a proof.
const shortestPeriod = 20 * time.Millisecond

// The constants of the search. Every constant was varied in simulation, and the
// results are flat around these.
const (
	binding   = 0.6  // part of a window for which tasks must wait, so that the limit binds
	inUse     = 0.85 // part of the limit that must be busy, so that it is used to the full
	extraUse  = 1.1  // times the base that must be in use of a larger limit, so that it can be judged
	tolerance = 0.02 // capacity that may be given up for a smaller pool

	shortestTrial   = 1.5  // seconds of evidence that a trial needs at least, unless it is plainly worse or better
	hastyErr        = 0.05 // standard error of ln rate with which two windows are enough to try a larger limit
	plainDifference = 0.25 // of ln rate: a difference that may be seen in two windows
	longestTrial    = 10.0 // seconds after which a trial ends, however close it is
)

// mode is what the search is doing.
type mode uint8

const (
	climbing    mode = iota // looking for a larger limit that completes more
	shrinking               // looking for a smaller one that completes as much
	holding                 // leaving the limit alone
	probingUp               // trying whether a larger limit has become better
	probingDown             // or a smaller one
)

// knee is the state of the search: one limit that is proven, and at most one that
// is on trial. Times are in seconds of windows.
type knee struct {
	Knee

	limit int // in force
	base  int // proven
	trial trial
	proof series // windows at base

	mode       mode
	lo, hi     int     // limits known to be inferior, and known to be useless; 0 if none is
	best       float64 // ln of the best capacity seen in this regime; fades
	settling   float64 // seconds still to wait after a change of the limit
	bound      bool    // the limit was binding in the last window with evidence
	boundFor   float64 // seconds for which it has been binding
	proofBound bool    // proof is of windows in which the limit was binding

	service      float64 // mean time of service, smoothed
	arrivals     float64 // tasks in a second, smoothed
	cpuSaturated bool    // the processors are used more than MaxCPU

	hold          hold
	slack         slack
	silentFor     float64 // seconds for which nothing has completed
	demand        float64 // tasks that ran or waited in the last window, on average
	stalledTrials int     // larger limits in a row at which nothing completed
	uselessDemand float64 // demand for which hi is useless, but not for more; 0 if for any
	mustProve     bool    // the base is to be proven before a larger limit is tried
	longWindow    bool    // the last window was far too long
	why           string
}

// Period is how long a window should be.
func (k *knee) Period() time.Duration { return k.Knee.Period }

// Observe learns from a window in which the limit was binding, or at least used to
// the full; from others it learns only what demand is.
func (k *knee) Observe(w *Window) Decision {
	k.why = ""
	d := w.Length().Seconds()
	if d <= 0 {
		return Decision{min(max(w.Limit, k.Min), k.Max), "a window without a length says nothing"}
	}
	if k.limit == 0 || w.Limit != k.limit {
		k.adopt(w.Limit)
	}
	if long := d > 4*k.Knee.Period.Seconds(); long != k.longWindow {
		if k.longWindow = long; long {
			return Decision{k.limit, k.why} // the process paused; unless all windows are so long
		}
	}
	k.smooth(w, d)
	if k.settling > 0 {
		k.settling -= d
	} else {
		k.learn(w, d)
	}
	return Decision{k.limit, k.why}
}

// adopt begins anew with a limit that was set manually.
func (k *knee) adopt(limit int) {
	first, given := k.limit == 0, limit
	limit = min(max(limit, k.Min), k.Max)
	*k = knee{
		Knee: k.Knee, limit: limit, base: limit,
		best:    math.Inf(-1),
		hold:    hold{wait: k.ProbeAfter.Seconds(), probeUp: true, damping: 1},
		slack:   slack{patience: slackPatience},
		service: k.service, arrivals: k.arrivals,
	}
	if !first {
		k.explain("set to %d by someone else: searching from there", given)
	}
	if !first || limit != given {
		k.settling = max(k.Knee.Period.Seconds(), k.service)
	}
}

// smooth updates the averages that every window contributes to.
func (k *knee) smooth(w *Window, d float64) {
	if n := float64(w.Service.Count()); n > 0 {
		part := max(0.2, min(1, n/50))
		if k.service == 0 {
			part = 1
		}
		k.service += part * (w.Service.Mean().Seconds() - k.service)
	}
	k.arrivals += 0.3 * (float64(w.Arrived)/d - k.arrivals)
	k.cpuSaturated = k.MaxCPU > 0 && w.CPU >= k.MaxCPU && w.CPU <= 1
	if k.trial.limit != 0 {
		k.trial.peak = max(k.trial.peak, w.BusyMax)
		if bindsIn(w) { // though shares of the limit may keep workers free
			k.trial.peak = max(k.trial.peak, w.Limit)
		}
	}
}

// bindsIn reports whether tasks waited for most of a window.
func bindsIn(w *Window) bool { return float64(w.BoundTime) >= binding*float64(w.Length()) }

// learn extracts from a window the evidence about the limit, if it has any.
func (k *knee) learn(w *Window, d float64) {
	if k.silent(w, d) {
		return
	}
	k.demand = w.Busy() + max(float64(w.QueueLen), ratio(float64(w.QueueTime), float64(w.Length())))
	s := sampleOf(w)
	k.slack.note(w)
	bound := bindsIn(w)
	full := w.Busy() >= inUse*float64(k.limit)
	if bound && k.restore() {
		return
	}
	if !bound && !full {
		k.learnSlack(w, s, d)
		return
	}
	if !bound && k.trial.limit == 0 && k.mode == climbing && k.proofBound && len(k.proof) > 0 && k.above() > 0 {
		// A burst has ended before there was enough evidence. The next one may add to it.
		if k.slack.abandoned += d; k.slack.abandoned <= abandonAfter {
			return
		}
	}
	k.bound = bound
	if bound && k.outgrown() {
		return
	}
	if !bound || k.trial.limit != 0 && k.trial.baseUnbound {
		// Demand that returns counts, a backlog that drains does not.
		s.completed, s.seconds = float64(min(w.Completed, w.Arrived)), d
	}
	if k.trial.limit == 0 && bound != k.proofBound {
		k.proof.clear() // never mix the two kinds of evidence
		k.proofBound = bound
	}
	if !bound || k.trial.limit != 0 || k.wantsMore() {
		k.slack.abandoned = 0
	}
	if k.trial.limit != 0 {
		k.trial.add(s, float64(k.trial.limit), d)
		k.evaluate(shortestTrial)
		return
	}
	k.learnBase(s, d)
}

// lengths is n times as long as a task takes, in seconds, but not longer than the
// evidence that is kept of windows that just bind.
func (k *knee) lengths(n float64) float64 {
	return min(n*k.service, binding*(proofMax-1)*k.Knee.Period.Seconds())
}

// explain adds to the reasons of the decision.
func (k *knee) explain(format string, args ...any) {
	if k.why != "" {
		k.why += "; "
	}
	k.why += fmt.Sprintf(format, args...)
}
