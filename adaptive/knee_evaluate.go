package adaptive

import "math"

// evaluate compares the trial with the base, if there is enough evidence to decide which is
// better.
func (k *knee) evaluate(atLeast float64) {
	base := k.proof.estimate(0, 3)
	cand := k.trial.series.estimate(math.Exp(base.log), 4)
	end := cand.seconds >= max(longestTrial, k.lengths(6)) || len(k.trial.series) >= trialMax
	if cand.seconds < k.lengths(2) || cand.completed < 10 && !end {
		return
	}
	gain, err := cand.log-base.log, math.Hypot(base.err, cand.err)
	up, want := k.trial.limit > k.base, k.wanted(base.log)
	if k.trial.hasty && cand.log-math.Log(k.proof.fastest())-1.6*err < want+plainDifference {
		k.evaluateHasty(gain, err, want)
		return
	}
	if cand.seconds < atLeast && (atLeast > shortestTrial || !k.trial.plainlyWorse(base.log+want, err) && !k.trial.plainlyBetter(base.log+want, err, k.demand)) {
		return
	}
	var accept bool
	switch {
	case gain-1.6*err > want:
		accept = true
	case up && gain+err < want, !up && gain+1.6*err < want:
	case end && up:
		accept = gain > want+err/4
	case end:
		accept = gain > want
	default:
		return
	}
	k.explainTrial(accept, gain, want)
	for _, e := range []estimate{base, cand} {
		if e.err < 0.1 {
			k.best = max(k.best, e.log)
		}
	}
	k.conclude(accept, gain, err)
}

// explainTrial adds the result of a trial to the reasons.
func (k *knee) explainTrial(accept bool, gain, want float64) {
	verdict := "back to %d: %d completes %+.1f%%, wanted was %+.1f%%"
	if accept {
		verdict = "instead of %d: %d completes %+.1f%%, wanted was %+.1f%%"
	}
	k.explain(verdict, k.base, k.trial.limit, percent(gain), percent(want))
}

// evaluateHasty ends a trial that was begun before the base was proven, and does not show at
// once that it is better. No single window decides: it is useless if even its best window is,
// beside the worst of the base.
func (k *knee) evaluateHasty(gain, err, want float64) {
	switch {
	case len(k.trial.series) < 2:
	case len(k.proof) >= 2 && math.Log(k.trial.series.fastest()/k.proof.slowest()) < want:
		k.explainTrial(false, gain, want)
		k.conclude(false, gain, err)
	default:
		k.proveFirst()
	}
}

// proveFirst ends a trial that was begun before there was any proof, and does not show at
// once that it is better.
func (k *knee) proveFirst() {
	k.explain("back to %d, of which too little is known to judge %d", k.base, k.trial.limit)
	k.mustProve = true
	k.endTrial()
	k.resize(k.base)
}

// demandOnly reports whether a result holds only for the demand that there was, because
// tasks did not wait in all of the evidence.
func (k *knee) demandOnly() bool { return !k.bound || k.trial.baseUnbound }

// percent converts a difference of logarithms for texts.
func percent(log float64) float64 { return 100 * math.Expm1(log) }

// wanted is the gain of ln rate that the trial has to show.
func (k *knee) wanted(base float64) float64 {
	switch {
	case k.trial.limit > k.base:
		return k.WorkerCost * math.Log(k.trial.workers/k.trial.seconds/float64(k.base))
	case k.trial.baseUnbound && float64(k.base)/float64(k.trial.limit) < 1.8:
		return tolerance // the limit fits the demand already: a fine step down must pay
	case k.best > base:
		return min(0, k.best-base-tolerance) // small losses must not add up
	}
	return -tolerance
}

// uselessDemandFor is the demand for which a limit is known to be useless; 0 if it is for any.
func (k *knee) uselessDemandFor(limit int) float64 {
	if k.demandOnly() {
		return float64(limit)
	}
	return 0
}

// useless is the smallest limit that is not worth its workers, given that large completes no
// more than gain above small. Unless large does harm, none in between completes more than it.
func (k *knee) useless(small, large int, gain, err float64) int {
	if k.demandOnly() || gain < -err {
		return large
	}
	worth := math.Ceil(float64(small) * math.Exp((max(gain, 0)+err)/k.WorkerCost))
	return max(small+1, int(min(worth, float64(large))))
}

// dominated is the largest limit that cannot complete as much as large, of which small
// completes less by at least gain, of ln rate. Returns diminish: no limit completes more
// for each of its workers than a smaller one.
func (k *knee) dominated(small, large int, gain float64) int {
	if k.demandOnly() {
		return small
	}
	return max(small, int(min(float64(small)*math.Exp(gain-tolerance), float64(large-1))))
}

// conclude ends the trial and goes on.
func (k *knee) conclude(accept bool, gain, err float64) {
	unused := k.bracket(accept, gain, err)
	k.mustProve = false
	k.slack.resumed = 0
	if accept {
		k.slack.proven = 0 // the new proof applies to the tasks that wait now
		k.proof = append(k.proof[:0], k.trial.series...)
		k.proof.forget(k.service)
		k.proofBound = !unused && k.bound
	}
	k.endTrial()
	switch {
	case unused:
		k.explain("no more than %d were ever in use", k.base)
		k.hi, k.bound = 0, false
		k.hold.clearAlarm(k.ProbeAfter.Seconds())
		k.mode = shrinking
	case k.mode <= shrinking:
	case accept:
		k.hold.clearAlarm(k.ProbeAfter.Seconds())
		k.hold.damping = 1
		if k.mode == probingUp {
			k.mode, k.hi = climbing, 0
		} else {
			k.mode, k.lo = shrinking, 0
		}
	default:
		k.probeFailed()
		return
	}
	k.advance()
}

// bracket keeps what a result implies for the limits around, and makes the better one the base.
// True is returned if a part of a larger limit was never in use: demand ends there.
func (k *knee) bracket(accept bool, gain, err float64) (unused bool) {
	old, cand := k.base, k.trial.limit
	switch {
	case accept && cand > old:
		k.stalledTrials = 0
		k.lo, k.base = k.dominated(old, cand, gain-1.6*err), cand
		if peak := k.trial.peak; peak > old && peak < cand {
			k.base = peak // the evidence reaches only so far
			return true
		}
	case accept:
		k.hi, k.base = old, cand
		k.uselessDemand = k.uselessDemandFor(old)
	case cand < old:
		k.lo = k.dominated(cand, old, -gain-1.6*err)
	default:
		k.hi = k.useless(old, cand, gain, err)
		k.uselessDemand = k.uselessDemandFor(k.hi)
	}
	return false
}
