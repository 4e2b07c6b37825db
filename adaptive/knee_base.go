package adaptive

// learnBase adds to the proof of the limit that is not on trial.
func (k *knee) learnBase(s sample, d float64) {
	k.proof.add(s)
	k.proof.forget(k.service)
	if !k.bound {
		k.boundT = 0
	} else if k.boundT += d; k.mode == holding && k.open() && (k.boundT >= shortest || k.flooded()) && k.base < k.Max && !k.hot && k.wantsMore() {
		k.say("tasks wait, and nothing above %d is known to be useless", k.base)
		k.proof.keep(int(k.boundT / d))
		k.mode = climbing
	}
	if k.mode == holding {
		k.holdOn(s, d)
		return
	}
	e := k.proof.estimate(0, 3)
	least := shortest
	if k.mode == climbing && !k.patient && k.bound && e.err < sure && len(k.proof) >= 2 && k.flooded() && k.above() > 0 && !k.hot {
		least = 0
	}
	if e.seconds >= max(least, k.lengths(2)) && (e.completed >= 10 || e.completed > 0 && e.seconds >= max(longestT, k.lengths(3))) {
		k.advance()
	}
}

// flooded reports whether there is so much to do that a larger limit may be tried before
// the base is proven.
func (k *knee) flooded() bool { return k.demand >= 1.5*float64(k.base) }

// wantsMore reports whether there are enough tasks to judge a larger limit by.
func (k *knee) wantsMore() bool { return k.demand >= more*float64(k.base) }

// open reports whether nothing above the base is known to be useless.
func (k *knee) open() bool {
	if k.enough > 0 && k.demand > 1.25*k.enough {
		k.hi, k.enough = 0, 0
	}
	return k.hi == 0
}
