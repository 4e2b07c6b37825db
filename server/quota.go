package server

import (
	"sync"
	"time"

	"golang.org/x/time/rate"
)

// quota limits how often something is said per second, and counts what was not.
type quota struct {
	mu         sync.Mutex // guards both
	limiter    *rate.Limiter
	suppressed uint64
}

func newQuota(perSecond int) *quota {
	return &quota{limiter: rate.NewLimiter(rate.Limit(perSecond), perSecond)}
}

// take reports whether it may be said now, and how many were not since the last.
func (q *quota) take(now time.Time) (ok bool, suppressed uint64) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if !q.limiter.AllowN(now, 1) {
		q.suppressed++
		return false, 0
	}
	suppressed, q.suppressed = q.suppressed, 0
	return true, suppressed
}
