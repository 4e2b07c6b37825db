package adaptive

import (
	"fmt"
	"time"
)

const (
	// DefaultMax is the default largest limit of an optimizer.
	DefaultMax = 1024
	// MaxLimit is the largest limit that can be configured: a pool of more goroutines
	// has another problem than its size.
	MaxLimit = 1 << 20
	// MinPeriod is the shortest window: a shorter one costs more than it shows.
	MinPeriod = time.Millisecond
)

// CheckOptimizer checks the settings that every [Optimizer] has: the period, and the smallest and the
// largest limit. The error is an [ErrConfig].
func CheckOptimizer(period time.Duration, least, most int) error {
	switch {
	case period < MinPeriod:
		return fmt.Errorf("%w: a period of %v, which must be at least %v", ErrConfig, period, MinPeriod)
	case least < 1:
		return fmt.Errorf("%w: a smallest limit of %d: with less than one worker nothing is done", ErrConfig, least)
	case most > MaxLimit:
		return fmt.Errorf("%w: a largest limit of %d, which must not be above %d", ErrConfig, most, MaxLimit)
	case most < least:
		return fmt.Errorf("%w: a largest limit of %d below the smallest, which is %d", ErrConfig, most, least)
	}
	return nil
}

// orElse is v, or usual when v is the zero value.
func orElse[T comparable](v, usual T) T {
	var zero T
	if v == zero {
		return usual
	}
	return v
}
