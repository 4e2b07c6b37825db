// Package logsample keeps what others cause from filling the log: it tells which of many equal lines is
// logged, and how many were suppressed since the last one.
package logsample

import (
	"sync"
	"time"

	"golang.org/x/time/rate"
)

// Minute is the limit of one line a minute, with burst 1.
var Minute = rate.Every(time.Minute)

// maxKeys is the number of keys that are told apart.
const maxKeys = 256

// Sampler limits how many lines of each key are logged. It is safe for concurrent use.
type Sampler struct {
	limit rate.Limit
	burst int

	mu    sync.Mutex // guards lines
	lines map[string]*lines
}

// lines are those of one key.
type lines struct {
	limiter    *rate.Limiter
	suppressed int
}

// New returns a sampler that allows limit lines of a key per second, and burst of them at once.
func New(limit rate.Limit, burst int) *Sampler {
	return &Sampler{limit: limit, burst: burst, lines: map[string]*lines{}}
}

// Allow reports whether a line of this key may be logged now, and how many were suppressed since the
// last one. When there are too many keys, further ones share one.
func (s *Sampler) Allow(key string) (ok bool, suppressed int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	l := s.lines[key]
	if l == nil && len(s.lines) >= maxKeys {
		s.forgetIdle(now)
		if len(s.lines) >= maxKeys {
			key = ""
			l = s.lines[key]
		}
	}
	if l == nil {
		l = &lines{limiter: rate.NewLimiter(s.limit, s.burst)}
		s.lines[key] = l
	}
	if !l.limiter.AllowN(now, 1) {
		l.suppressed++
		return false, 0
	}
	suppressed, l.suppressed = l.suppressed, 0
	return true, suppressed
}

// forgetIdle removes the keys that would not be limited now. The caller holds mu.
func (s *Sampler) forgetIdle(now time.Time) {
	for key, l := range s.lines {
		if l.limiter.TokensAt(now) >= float64(s.burst) {
			delete(s.lines, key)
		}
	}
}
