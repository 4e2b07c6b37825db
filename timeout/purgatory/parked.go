package purgatory

import (
	"sync/atomic"

	"github.com/txmgr/txmgr/timeout/wheel"
)

// Parked is the handle of a parked request. All methods may be called at any time, by any
// goroutine, and on nil, which is a request that was completed before Park returned. Holding a
// Parked holds a few words of memory, and not the request once that is completed.
type Parked struct {
	deadline wheel.Task[*Parked] // in the wheel until the request is completed: it keeps the request alive
	clock    *clock
	request  Request       // belongs to the goroutine that has set trying or over
	state    atomic.Uint32 // trying, again, over, and above them the Outcome that was forced while trying
}

const (
	trying = 1 << iota // a goroutine is calling TryComplete
	again              // a key was checked meanwhile: that call may have seen an older state
	over               // it is completed, for ever
	forced = iota      // by how much the Outcome is shifted
)

// maxRounds is how often TryComplete is called without a pause because of checks that came while it ran. A TryComplete
// that checks its own key would go on for ever.
const maxRounds = 16

// Done reports whether the request is completed: Complete was called, or is about to be.
func (r *Parked) Done() bool { return r == nil || r.state.Load()&over != 0 }

// Cancel completes the request with Cancelled, unless it is completed. If TryComplete is running,
// its answer comes first, and the goroutine that called it completes the request; otherwise it is
// completed when Cancel returns.
func (r *Parked) Cancel() {
	if r != nil {
		r.force(Cancelled)
	}
}

// tryComplete calls TryComplete and completes the request if it reports true. If another goroutine
// is trying, it is made to try once more. It reports whether this call completed the request.
func (r *Parked) tryComplete() bool {
	for {
		switch s := r.state.Load(); {
		case s&(over|again) != 0:
			return false
		case s&trying != 0:
			if r.state.CompareAndSwap(s, s|again) {
				return false
			}
		case r.state.CompareAndSwap(s, trying):
			return r.run(false)
		}
	}
}

// run calls TryComplete as often as needed; the caller has set trying. If it panics, it counts as
// false, except for a request that is only being parked: that is dropped. run reports whether this
// call completed the request.
func (r *Parked) run(parking bool) bool {
	returned := false
	defer func() {
		if returned {
			return
		}
		if parking {
			r.drop()
		} else if how, _ := r.endTry(false, false); how != 0 {
			r.complete(how)
		}
	}()
	for round := 1; ; round++ {
		how, more := r.endTry(r.request.TryComplete(), round < maxRounds)
		if more {
			continue
		}
		returned = true
		if how != 0 {
			r.complete(how)
		}
		return how != 0
	}
}

// endTry clears trying after a TryComplete. It returns the outcome if the request is completed by
// it, and whether TryComplete is to be called again, which it is only if more is set.
func (r *Parked) endTry(satisfied, more bool) (Outcome, bool) {
	for {
		s := r.state.Load()
		how, next := Outcome(s>>forced), uint32(0)
		if satisfied {
			how = Satisfied
		}
		switch {
		case how != 0:
			next = over
		case s&again != 0 && more:
			next = trying
		}
		if !r.state.CompareAndSwap(s, next) {
			continue
		}
		if s&again != 0 && next == 0 {
			r.clock.retryLater(r)
		}
		return how, next == trying
	}
}

// force completes the request whatever its condition, now or when the running TryComplete returns.
// It reports whether this call completed the request.
func (r *Parked) force(how Outcome) bool {
	for {
		switch s := r.state.Load(); {
		case s&over != 0 || s>>forced != 0:
			return false
		case s&trying != 0:
			if r.state.CompareAndSwap(s, s|uint32(how)<<forced) {
				return false
			}
		case r.state.CompareAndSwap(s, over):
			r.complete(how)
			return true
		}
	}
}

// complete is called by the goroutine that has set over.
func (r *Parked) complete(how Outcome) {
	r.forget().Complete(how)
}

// forget takes a completed request from the clock, and drops its Request.
func (r *Parked) forget() Request {
	q := r.request
	r.request = nil
	r.clock.remove(r)
	return q
}

// drop ends a request that its caller has set trying, as if it had never been parked.
func (r *Parked) drop() {
	r.state.Store(over)
	r.forget()
}
