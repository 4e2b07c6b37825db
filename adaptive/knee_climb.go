package adaptive

import "math"

// closest is the ratio of two limits below which nothing between them is tried:
// noise would decide.
const closest = 1.22

// advance goes on with the search: up as long as tasks wait and there is a limit
// worth trying, then down, then hold.
func (k *knee) advance() {
	if k.mode == climbing && k.bound && k.wantsMore() {
		if c := k.above(); c > 0 && k.try(c, "tasks wait") {
			return
		}
	}
	k.mode = shrinking
	if c := k.below(); c > 0 && k.try(c, "a smaller one might do as much") {
		return
	}
	k.enterHold()
}

// above is the next larger limit to try, 0 if there is none: twice as many, or as
// many as the offered load needs, or the middle of what is open.
func (k *knee) above() int {
	c := max(2*k.base, k.base+4)
	if need := 1.2 * k.arrivals * k.service; need > float64(c) { // Little's law
		c = int(min(need, 8*float64(k.base)))
	}
	if k.hi > 0 && c >= k.hi {
		if near(k.base, k.hi) {
			return 0
		}
		c = between(k.base, k.hi)
	}
	c = min(c, k.Max)
	if c <= k.base {
		return 0
	}
	return c
}

// below is the next smaller limit to try, 0 if there is none: half as many, or the
// middle of what is open.
func (k *knee) below() int {
	c := k.base / 2
	if k.lo > 0 && c <= k.lo {
		if near(k.lo, k.base) {
			return 0
		}
		c = between(k.lo, k.base)
	}
	if c < k.Min {
		return 0
	}
	return c
}

func near(low, high int) bool {
	return float64(high)/float64(low) < closest || high-low <= 1
}

// between is the geometric middle of two limits, and neither of them.
func between(low, high int) int {
	c := int(math.Round(math.Sqrt(float64(low) * float64(high))))
	return min(max(c, low+1), high-1)
}

// learnBase adds to the proof of the limit that is not on trial.
func (k *knee) learnBase(s sample, d float64) {
	k.proof.add(s)
	k.proof.forget(k.service)
	if !k.bound {
		k.boundFor = 0
	} else if k.boundFor += d; k.mode == holding && k.open() && (k.boundFor >= shortestTrial || k.overloaded()) && k.base < k.Max && !k.cpuSaturated && k.wantsMore() {
		k.explain("tasks wait, and nothing above %d is known to be useless", k.base)
		k.proof.keep(int(k.boundFor / d))
		k.mode = climbing
	}
	if k.mode == holding {
		k.holdOn(s, d)
		return
	}
	e := k.proof.estimate(0, 3)
	least := shortestTrial
	if k.mode == climbing && !k.mustProve && k.bound && e.err < hastyErr && len(k.proof) >= 2 && k.overloaded() && k.above() > 0 && !k.cpuSaturated {
		least = 0
	}
	if e.seconds >= max(least, k.lengths(2)) && (e.completed >= 10 || e.completed > 0 && e.seconds >= max(longestTrial, k.lengths(3))) {
		k.advance()
	}
}

// overloaded reports whether there is so much to do that a larger limit may be tried before
// the base is proven.
func (k *knee) overloaded() bool { return k.demand >= 1.5*float64(k.base) }

// wantsMore reports whether there are enough tasks to judge a larger limit by.
func (k *knee) wantsMore() bool { return k.demand >= extraUse*float64(k.base) }

// open reports whether nothing above the base is known to be useless.
func (k *knee) open() bool {
	if k.uselessDemand > 0 && k.demand > 1.25*k.uselessDemand {
		k.hi, k.uselessDemand = 0, 0
	}
	return k.hi == 0
}
