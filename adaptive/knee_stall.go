package adaptive

import "math"

const (
	stallPart    = 0.1  // of the usual completions, below which a window is stalled
	stallMost    = 10.0 // seconds after which it is not a stall any more
	silenceLimit = 3.0  // seconds without a completion after which a trial ends
)

// stalled reports whether the process is paused, as by the garbage
// collector, or by a machine that is suspended for a moment. That is no evidence,
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

// silent reports whether nothing has completed for too long to give evidence about a limit:
// longer than tasks take, and longer than a pause. The resource that the tasks wait for is gone,
// and no limit would be better, unless the one on trial overloads it.
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
	if k.trial.limit > k.base {
		k.hi, k.uselessDemand = k.trial.limit, float64(k.trial.limit)*math.Exp2(float64(k.stalledTrials))
		k.stalledTrials++ // each stalled trial doubles the demand for which the limit is tried again
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
