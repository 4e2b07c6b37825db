package server

import (
	"sync"
	"time"

	"golang.org/x/time/rate"
)

// logLimiter limits how often something is said per second, and counts what was not.
type logLimiter struct {
	mu         sync.Mutex // guards both
	limiter    *rate.Limiter
	suppressed uint64
}

func newLogLimiter(perSecond int) *logLimiter {
	return &logLimiter{limiter: rate.NewLimiter(rate.Limit(perSecond), perSecond)}
}

// allow reports whether it may be said now, and how many were not since the last.
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
