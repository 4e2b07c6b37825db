package cluster

import (
	"context"
	"time"
)

// patience bounds every wait for something that should not take long. It is long
// because a shared disk can stall; nothing is measured by it.
const patience = 90 * time.Second

// pause waits, and reports whether ctx is still going on.
func pause(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return ctx.Err() == nil
	case <-ctx.Done():
		return false
	}
}

// until repeats try until it succeeds. The error is the last one of try, but not that
// ctx has ended, if there was another one before.
func until(ctx context.Context, try func(context.Context) error) (last error) {
	for {
		err := try(ctx)
		if err == nil {
			return nil
		}
		if last == nil || ctx.Err() == nil {
			last = err
		}
		if !pause(ctx, 50*time.Millisecond) {
			return last
		}
	}
}

// soon is [until] within a bound, whose end fails the test.
func (b *bed) soon(within time.Duration, what string, try func(context.Context) error) {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(b.t.Context()), within)
	defer cancel()
	start := time.Now()
	if err := until(ctx, try); err != nil {
		b.t.Fatalf("after %v: %s: %v", time.Since(start).Round(time.Millisecond), what, err)
	}
	b.log.note("after %v: %s", time.Since(start).Round(time.Millisecond), what)
}
