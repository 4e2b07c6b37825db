package rig

import (
	"context"
	"errors"
	"fmt"
	"math"
	"sync"
	"sync/atomic"
	"time"
)

// Load is a closed loop: each of the callers makes one pair of calls after the other. While a pair
// takes long, its caller begins no other, so calls that would have been made meanwhile are not
// counted: latencies are those of the pairs that were made, not corrected for coordinated omission.
// They compare contenders with the same number of callers; they do not tell how long callers that
// arrive at a fixed rate would wait. [Sample].LongestGap and the maximum show the pauses.
type Load struct {
	Callers int
	// Warm is how long the callers run before anything counts, and Span how long it counts then.
	// With Until it counts until that is closed instead.
	Warm, Span time.Duration
	Until      <-chan struct{}
	// Pair makes one pair of calls; caller is from 0 to Callers-1.
	Pair func(ctx context.Context, caller int) error
	// Meter is called when the span begins and when it ends. Defaults to none.
	Meter func()
}

// Sample is what was measured during the span of a load.
type Sample struct {
	Callers   int           `json:"callers"`
	Span      time.Duration `json:"span_ns"`
	Pairs     int           `json:"pairs"` // ended within the span
	PerSecond float64       `json:"pairs_per_second"`
	Latencies *Latencies    `json:"latencies"` // of the pairs that began within the span
	// LongestGap is the longest time within the span in which no pair of any caller ended.
	LongestGap time.Duration `json:"silence_ns"`
}

// Run drives the load. The first error of a pair ends it.
func (l Load) Run(ctx context.Context) (Sample, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var (
		wg    sync.WaitGroup
		start = time.Now()
		end   atomic.Int64 // nanoseconds from start at which the span ended
		last  atomic.Int64 // the time at which the latest pair ended, likewise
		quiet atomic.Int64
		ended = make([]int, l.Callers)
		mu    sync.Mutex // guards took
		took  = new(Latencies)
	)
	end.Store(math.MaxInt64)
	over := func() bool { return end.Load() != math.MaxInt64 }
	for c := range l.Callers {
		wg.Go(func() {
			for !over() {
				began := time.Since(start)
				if err := l.Pair(ctx, c); err != nil {
					cancel(fmt.Errorf("caller %d: %w", c, err))
					return
				}
				now := time.Since(start)
				raise(&quiet, int64(now)-max(last.Swap(int64(now)), int64(l.Warm)))
				if now >= l.Warm && !over() {
					ended[c]++
				}
				if began >= l.Warm {
					mu.Lock()
					took.Record(now - began)
					mu.Unlock()
				}
			}
		})
	}
	wait(ctx, time.After(l.Warm))
	l.read()
	if l.Until == nil {
		wait(ctx, time.After(l.Warm+l.Span-time.Since(start)))
	} else {
		wait(ctx, l.Until)
	}
	l.read()
	end.Store(int64(time.Since(start)))
	wg.Wait()
	if err := context.Cause(ctx); err != nil {
		return Sample{}, err
	}
	return l.sample(time.Duration(end.Load())-l.Warm, ended, took, time.Duration(quiet.Load()))
}

func wait[T any](ctx context.Context, c <-chan T) {
	select {
	case <-c:
	case <-ctx.Done():
	}
}

func (l Load) read() {
	if l.Meter != nil {
		l.Meter()
	}
}

func (l Load) sample(span time.Duration, ended []int, took *Latencies, quiet time.Duration) (Sample, error) {
	s := Sample{Callers: l.Callers, Span: span, Latencies: took, LongestGap: quiet}
	for _, n := range ended {
		s.Pairs += n
	}
	if s.Pairs == 0 || took.Count() == 0 {
		return s, errors.New("no pair ended in time: the span is too short for this machine")
	}
	s.PerSecond = float64(s.Pairs) / span.Seconds()
	return s, nil
}

func raise(a *atomic.Int64, v int64) {
	for {
		old := a.Load()
		if v <= old || a.CompareAndSwap(old, v) {
			return
		}
	}
}
