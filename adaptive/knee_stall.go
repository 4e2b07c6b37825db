package adaptive

import "math"

const (
	stallPart = 0.1  // of the usual completions, below which nothing goes on
	stallMost = 10.0 // seconds after which it is no stall any more
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
