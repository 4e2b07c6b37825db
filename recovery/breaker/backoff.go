package breaker

import "time"

// Backoff computes waits that double from Base to Max. The randomness is an input.
type Backoff struct {
	Base, Max time.Duration
	Rand      func() float64 // in [0, 1)
}

// ceiling is the longest wait after n failures in a row, n from 1.
func (b Backoff) ceiling(n int) time.Duration {
	d := b.Base
	for i := 1; i < n && d < b.Max; i++ {
		d *= 2
		if d <= 0 {
			return b.Max
		}
	}
	return min(d, b.Max)
}

// FullJitter returns a wait between zero and the ceiling. Of all kinds of jitter it spreads
// many waiters best (M. Brooker, "Exponential Backoff And Jitter", 2015).
func (b Backoff) FullJitter(n int) time.Duration {
	return time.Duration(b.Rand() * float64(b.ceiling(n)))
}

// HalfJitter returns a wait between half the ceiling and the ceiling, for callers that
// must not retry at once: a breaker's probe.
func (b Backoff) HalfJitter(n int) time.Duration {
	d := b.ceiling(n)
	return d/2 + time.Duration(b.Rand()*float64(d-d/2))
}
