package adaptive

import "math"

// trial is a limit that is tried in place of the base; there is none if its limit
// is 0.
type trial struct {
	limit       int
	series      series
	hasty       bool // it began before the base was proven
	baseUnbound bool // when it began, the base was not binding
	peak        int  // most busy workers
	// workers is the integral of the workers that count as evidence, over seconds.
	workers, seconds float64
}

// add counts a window with so many workers as evidence.
func (t *trial) add(s sample, workers, d float64) {
	t.workers += workers * d
	t.seconds += d
	t.series.add(s)
	t.series.keep(trialMax)
}

// resize changes the limit, and waits until the tasks of the old one have left.
func (k *knee) resize(limit int) {
	if limit != k.limit {
		k.settling = max(k.Knee.Period.Seconds(), k.service)
		k.limit = limit
	}
}

// try begins a trial; false if the limit cannot be tried.
func (k *knee) try(limit int, why string) bool {
	limit = min(max(limit, k.Min), k.Max)
	if limit == k.base || limit > k.base && k.cpuSaturated {
		return false
	}
	k.explain("trying %d after %d: %s", limit, k.base, why)
	hasty := k.mode == climbing && limit > k.base && k.proof.estimate(0, 3).seconds < shortestTrial
	k.trial = trial{limit: limit, hasty: hasty, baseUnbound: !k.proofBound, series: k.trial.series[:0]}
	k.slack.abandoned = 0
	k.resize(limit)
	return true
}

// endTrial ends it without a result.
func (k *knee) endTrial() { k.trial.limit = 0 }

// plainlyWorse reports whether all windows of a trial, and two at least, are worse than
// wanted of ln rate by more than a machine that is slow for a moment explains.
func (t *trial) plainlyWorse(want, err float64) bool {
	return len(t.series) >= 2 && want-math.Log(t.series.fastest()) >= max(plainDifference, 5*err)
}

// plainlyBetter is the opposite, as far as there is so much to do that an even larger limit
// will be tried.
func (t *trial) plainlyBetter(want, err, demand float64) bool {
	return len(t.series) >= 2 && demand >= 1.5*float64(t.limit) && math.Log(t.series.slowest())-want >= max(plainDifference, 5*err)
}
