package adaptive

import "math"

const (
	stallPart    = 0.1  // of the usual completions, below which nothing goes on
	stallMost    = 10.0 // seconds after which it is no stall any more
	silenceLimit = 3.0  // seconds without a completion after which a trial is over
)

// stalled reports whether the process stands still, as it does in a pause of the
// collector, or when its machine is taken away for a moment. That is no evidence,
// neither about the limit nor about the work, unless it lasts.
func (k *knee) stalled(s sample, d float64) bool {
	h := &k.hold
	if s.completed >= stallPart*math.Exp(h.rate)*s.seconds {
		h.stalled = 0
		return false
	}
	h.stalled += d
	return h.stalled < stallMost
}

// silent reports whether nothing has completed for too long to say anything about a limit:
// longer than tasks take, and longer than a pause. Whatever the tasks wait for is gone,
// and no limit would be better, unless it is the one on trial that is too much for it.
func (k *knee) silent(w *Window, d float64) bool {
	if w.Completed > 0 || w.BusyTime == 0 {
		k.silentFor = 0
		return false
	}
	if k.silentFor += d; k.silentFor < max(silenceLimit, 3*k.service) {
		return false
	}
	if k.trial.limit == 0 {
		return true
	}
	k.explain("back to %d: nothing completes at %d", k.base, k.trial.limit)
	if k.trial.limit > k.base && !k.trial.jump {
		k.hi, k.uselessDemand = k.trial.limit, float64(k.trial.limit)*math.Exp2(float64(k.stalledTrials))
		k.stalledTrials++ // what comes of it each time is not tried for a little more demand
	}
	k.endTrial()
	if k.mode > shrinking {
		k.hold.wait = min(2*k.hold.wait, 16*k.ProbeAfter.Seconds())
		k.hold.probeUp = !k.hold.probeUp
		k.enterHold()
	}
	k.resize(k.base)
	return true
}
