package limits

import (
	"sync"
	"time"

	"golang.org/x/time/rate"
)

// LogLines limits how many lines of a kind are logged per second, and counts the suppressed
// ones.
type LogLines struct {
	mu         sync.Mutex // guards both
	limiter    *rate.Limiter
	suppressed uint64
}

// NewLogLines makes a limit of lines per second.
func NewLogLines(perSecond int) *LogLines {
	return &LogLines{limiter: rate.NewLimiter(rate.Limit(perSecond), perSecond)}
}

// Allow reports whether a line may be logged now, and how many were suppressed since the last
// one.
func (q *LogLines) Allow(now time.Time) (ok bool, suppressed uint64) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if !q.limiter.AllowN(now, 1) {
		q.suppressed++
		return false, 0
	}
	suppressed, q.suppressed = q.suppressed, 0
	return true, suppressed
}
