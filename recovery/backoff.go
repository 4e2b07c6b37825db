package recovery

import "time"

// backoff computes waits that double from base to max. The randomness is an input.
type backoff struct {
	base, max time.Duration
	rand      func() float64 // in [0, 1)
}

// ceiling is the longest wait after n failures in a row, n from 1.
func (b backoff) ceiling(n int) time.Duration {
	d := b.base
	for i := 1; i < n && d < b.max; i++ {
		d *= 2
		if d <= 0 {
			return b.max
		}
	}
	return min(d, b.max)
}

// fullJitter returns a wait between zero and the ceiling. Of all kinds of jitter it spreads
// many waiters best (M. Brooker, "Exponential Backoff And Jitter", 2015).
func (b backoff) fullJitter(n int) time.Duration {
	return time.Duration(b.rand() * float64(b.ceiling(n)))
}

// halfJitter returns a wait between half the ceiling and the ceiling, for callers that
// must not retry at once: a breaker's probe.
func (b backoff) halfJitter(n int) time.Duration {
	d := b.ceiling(n)
	return d/2 + time.Duration(b.rand()*float64(d-d/2))
}
