package server

import (
	"sync"
	"time"

	"golang.org/x/time/rate"
)

// logLimiter limits how many lines of a kind are logged per second, and counts the suppressed
// ones.
type logLimiter struct {
	mu         sync.Mutex // guards both
	limiter    *rate.Limiter
	suppressed uint64
}

func newLogLimiter(perSecond int) *logLimiter {
	return &logLimiter{limiter: rate.NewLimiter(rate.Limit(perSecond), perSecond)}
}

// allow reports whether a line may be logged now, and how many were suppressed since the last
// one.
func (q *logLimiter) allow(now time.Time) (ok bool, suppressed uint64) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if !q.limiter.AllowN(now, 1) {
		q.suppressed++
		return false, 0
	}
	suppressed, q.suppressed = q.suppressed, 0
	return true, suppressed
}
