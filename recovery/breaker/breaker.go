package breaker

import "time"

// Breaker is a circuit breaker: after some failures in a row it opens; from time to time
// it lets one probe through; a success closes it. Times are on the owner's monotonic scale.
// A Breaker with a Threshold and a Backoff is closed. Guarded by the owner's lock.
type Breaker struct {
	Threshold int // failures in a row that open it
	Backoff   Backoff

	fails     int // in a row, while closed
	openCount int // failed probes in a row, plus one; zero means closed
	openUntil time.Duration
	probing   bool
}

// Closed reports whether calls pass freely.
func (b *Breaker) Closed() bool { return b.openCount == 0 }

// Ready reports whether a call may begin now.
func (b *Breaker) Ready(now time.Duration) bool {
	return b.Closed() || (!b.probing && now >= b.openUntil)
}

// Begin records that a call begins; probe is to be passed back with its result.
func (b *Breaker) Begin() (probe bool) {
	b.probing = !b.Closed()
	return b.probing
}

// Success closes the breaker. The answer of a call that began before it opened
// counts as well: it shows that the participant works.
func (b *Breaker) Success() {
	b.fails, b.openCount, b.openUntil, b.probing = 0, 0, 0, false
}

// Failure counts, opens, or keeps open. Failures of calls that began before it
// opened carry no new information.
func (b *Breaker) Failure(now time.Duration, probe bool) {
	switch {
	case b.Closed():
		b.fails++
		if b.fails < b.Threshold {
			return
		}
	case !probe:
		return
	}
	b.openCount++
	b.openUntil = now + b.Backoff.HalfJitter(b.openCount)
	b.probing = false
}

// CancelProbe ends a call that gave no information about the participant.
func (b *Breaker) CancelProbe(probe bool) {
	if probe {
		b.probing = false
	}
}

// AllowProbe makes a probe possible now.
func (b *Breaker) AllowProbe(now time.Duration) { b.openUntil = min(b.openUntil, now) }

// NextProbe is when the next call may begin; zero when closed.
func (b *Breaker) NextProbe() time.Duration {
	if b.Closed() {
		return 0
	}
	return b.openUntil
}
