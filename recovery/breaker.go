package recovery

import "time"

// breaker is a circuit breaker: after some failures in a row it opens; from time to time
// it lets one probe through; a success closes it.
// Times are on recovery's monotonic scale. Guarded by the owner's lock.
type breaker struct {
	threshold int // failures in a row that open it
	backoff   backoff

	fails     int // in a row, while closed
	openCount int // failed probes in a row, plus one; zero means closed
	openUntil time.Duration
	probing   bool
}

// closed reports whether calls pass freely.
func (b *breaker) closed() bool { return b.openCount == 0 }

// ready reports whether a call may begin now.
func (b *breaker) ready(now time.Duration) bool {
	return b.closed() || (!b.probing && now >= b.openUntil)
}

// begin records that a call begins; probe is to be passed back with its result.
func (b *breaker) begin() (probe bool) {
	b.probing = !b.closed()
	return b.probing
}

// success closes the breaker. The answer of a call that began before it opened
// counts as well: it shows that the participant works.
func (b *breaker) success() {
	b.fails, b.openCount, b.openUntil, b.probing = 0, 0, 0, false
}

// failure counts, opens, or keeps open. Failures of calls that began before it
// opened carry no new information.
func (b *breaker) failure(now time.Duration, probe bool) {
	switch {
	case b.closed():
		b.fails++
		if b.fails < b.threshold {
			return
		}
	case !probe:
		return
	}
	b.openCount++
	b.openUntil = now + b.backoff.halfJitter(b.openCount)
	b.probing = false
}

// cancelProbe ends a call that gave no information about the participant.
func (b *breaker) cancelProbe(probe bool) {
	if probe {
		b.probing = false
	}
}

// allowProbe makes a probe possible now.
func (b *breaker) allowProbe(now time.Duration) { b.openUntil = min(b.openUntil, now) }

// nextProbe is when the next call may begin; zero when closed.
func (b *breaker) nextProbe() time.Duration {
	if b.closed() {
		return 0
	}
	return b.openUntil
}
