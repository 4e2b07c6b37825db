package adaptive

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
