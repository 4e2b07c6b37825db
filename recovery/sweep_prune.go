package recovery

import (
	"context"
	"errors"
	"time"

	"github.com/txmgr/txmgr/internal/redact"
	"github.com/txmgr/txmgr/recovery/call"
	"github.com/txmgr/txmgr/recovery/plan"
	"github.com/txmgr/txmgr/recovery/scan"
)

// pruneFor removes commit records of ended branches, for at most about d. While there are
// more than one call removes it goes on, with pauses, so that commit records do not grow
// without bound where branches end faster than one call removes for each sweep.
func (r *Recovery) pruneFor(ctx context.Context, name string, d time.Duration) {
	begun := time.Now()
	for {
		start := time.Now()
		if more := r.prune(ctx, name); !more {
			break
		}
		pause := max(time.Since(start), r.cfg.SweepEvery/10)
		if time.Since(begun)+pause > d || !sleep(ctx, pause) {
			break
		}
	}
}

// prune makes one call, and reports whether there may be more to remove. No
// sweep runs meanwhile, and none waits longer for it than for one of its own
// calls.
func (r *Recovery) prune(ctx context.Context, name string) (more bool) {
	limit := min(r.cfg.CallTimeout, r.cfg.SweepEvery)
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	ctx, leave, err := r.enterSweep(ctx, name)
	if err != nil {
		return false
	}
	defer leave()
	more, err = r.visits.scanner.Prune(ctx, name, r.busy)
	if errors.Is(err, scan.ErrListPrepared) {
		return false // the next sweep reports it
	}
	err = call.TimeoutError(ctx, limit, err)
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case r.life.ctx.Err() != nil:
	case err != nil:
		r.laneLocked(name).health.pruneErr = redact.Text("prune: " + err.Error())
	default:
		r.laneLocked(name).health.pruneErr = ""
	}
	return more
}

// busy reports for which branches a call is under way, or its result still to be recorded.
func (r *Recovery) busy(keys []plan.Key) []bool {
	is := make([]bool, len(keys))
	r.mu.Lock()
	defer r.mu.Unlock()
	for i, k := range keys {
		is[i] = r.busyLocked(k)
	}
	return is
}

// busyLocked reports whether a call for the branch is under way, or its result
// still to be recorded; mu is held. After the log has the transaction as
// finished, false is final: every call reads the log first.
func (r *Recovery) busyLocked(k plan.Key) bool {
	for v := plan.Commit; v <= plan.ResolveOutcome; v++ {
		if r.attempts[item{k, v}] != nil {
			return true
		}
	}
	return r.reporter.batches[k.TX] != nil
}
