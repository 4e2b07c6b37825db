package adaptive

import "time"

// Fixed is an [Optimizer] that does not optimize: the limit is its value. The
// zero value leaves the limit as it is, for pools that are sized by [Pool.Resize].
type Fixed int

// Period is one second, after which the statistics of a pool are updated.
func (f Fixed) Period() time.Duration { return time.Second }

// Observe learns nothing.
func (f Fixed) Observe(w *Window) Decision {
	if f == 0 || int(f) == w.Limit {
		return Decision{Limit: w.Limit}
	}
	return Decision{int(f), "the limit is fixed"}
}
