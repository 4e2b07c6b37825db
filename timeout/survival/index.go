package survival

import (
	"fmt"
	"math"
	"time"

	"github.com/txmgr/txmgr/timeout"
)

// Tick is an absolute number of invocations of the timeout thread since the beginning (bootstrap) of the cluster.
type Tick = timeout.Tick

// Index is the number of invocations of the timeout thread that a transaction survives.
//
// The two numbers age together: at every invocation Invocations grows by one, and Survival stays as
// it was computed. Neither is negative. The zero Index has no invocation left. An Index is a value
// and safe to copy and to share.
type Index struct {
	// Survival is the number of the invocation, counted from the making of the index, that ends the transaction.
	Survival int64
	// Invocations is how often the thread has run since the index was made.
	Invocations int64
}

// NewIndex returns the index of a transaction that begins now.
//
// It may run for timeout; untilNext remains until the timeout thread's next invocation, and from then on the thread runs
// every interval. The invocation with the number Survival comes at or after the timeout and less than one interval
// later.
//
// The error wraps [ErrTimeout], [ErrInterval], [ErrUntilNext] or [ErrOverflow].
func NewIndex(timeout, untilNext, interval time.Duration) (Index, error) {
	switch {
	case timeout <= 0:
		return Index{}, fmt.Errorf("survival index: %w, not %v: choose a longer one", ErrTimeout, timeout)
	case interval <= 0:
		return Index{}, fmt.Errorf("survival index: %w, not %v: set the interval of the cluster", ErrInterval, interval)
	case untilNext < 0 || untilNext > interval:
		return Index{}, fmt.Errorf("survival index: %w of %v, not %v", ErrUntilNext, interval, untilNext)
	}
	left := timeout - untilNext
	full := int64(left / interval)
	// Division truncates towards zero, which is the ceiling already when the timeout ends before the next invocation.
	if left > 0 && left%interval != 0 {
		full++
	}
	if full == math.MaxInt64 {
		return Index{}, fmt.Errorf("survival index: %w: timeout %v at an interval of %v: choose a shorter timeout",
			ErrOverflow, timeout, interval)
	}
	return Index{Survival: full + 1}, nil
}

// Remaining returns how many invocations are left, the last of which ends the transaction.
func (i Index) Remaining() int64 { return i.Survival - i.Invocations }

// Equal reports whether i and j have the same number of invocations left, so that their transactions share a group.
func (i Index) Equal(j Index) bool { return i.Remaining() == j.Remaining() }

// Hash returns the absolute number of the invocation that ends the group of i, where global is the number of
// invocations so far. It stays the same while the index ages with global, and every replica computes the same. A result
// outside the range of Tick becomes the nearest Tick.
func (i Index) Hash(global Tick) Tick {
	left := i.Remaining()
	if left < 0 {
		return global - min(global, Tick(-left))
	}
	return global + min(math.MaxUint64-global, Tick(left))
}

// Aged returns the index after n more invocations.
func (i Index) Aged(n int64) Index {
	return Index{Survival: i.Survival, Invocations: i.Invocations + n}
}

// String returns survival and, in parentheses, invocations: 5(1) survives five and has seen one.
func (i Index) String() string { return fmt.Sprintf("%d(%d)", i.Survival, i.Invocations) }
