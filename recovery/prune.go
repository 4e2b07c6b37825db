package recovery

import (
	"context"
	"fmt"
	"time"

	"github.com/txmgr/txmgr/internal/redact"
	"github.com/txmgr/txmgr/participant"
)

// pruneLimit is how many commit records one call removes.
const pruneLimit = 10_000

// pruneFor removes commit records of ended branches, for at most about d, and returns
// how long that took. While there are more than one call removes it goes on, with
// pauses, so that commit records do not grow without bound where branches end faster
// than pruneLimit for each sweep.
func (r *Recovery) pruneFor(ctx context.Context, name string, d time.Duration) time.Duration {
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
	return time.Since(begun)
}

// prune makes one call, and reports whether there may be more to remove. No
// sweep runs meanwhile, and none waits longer for it than for one of its own
// calls.
func (r *Recovery) prune(ctx context.Context, name string) (more bool) {
	ctx, cancel := context.WithTimeout(ctx, min(r.cfg.CallTimeout, r.cfg.SweepEvery))
	defer cancel()
	ctx, leave, err := r.enterSweep(ctx, name)
	if err != nil {
		return false
	}
	defer leave()
	p, err := r.open(ctx, name)
	if err != nil {
		return false // the next sweep reports it
	}
	pruner, ok := p.(participant.Pruner)
	if !ok {
		return false
	}
	removed, err := r.callPrune(ctx, pruner)
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case r.ctx.Err() != nil:
	case err != nil:
		r.laneLocked(name).pruneErr = redact.Text("prune: " + err.Error())
	default:
		r.laneLocked(name).pruneErr = ""
	}
	return err == nil && removed >= pruneLimit
}

func (r *Recovery) callPrune(ctx context.Context, p participant.Pruner) (removed int, err error) {
	defer recoverPanic(&err)
	removed, err = p.Prune(ctx, pruneLimit, r.obsolete)
	return removed, timeoutError(ctx, min(r.cfg.CallTimeout, r.cfg.SweepEvery), err)
}

// obsolete reports for which branches the participant's commit record will never be needed
// again: see the package's invariant 8.
func (r *Recovery) obsolete(ctx context.Context, xids []string) ([]bool, error) {
	if len(xids) > lookupPage {
		return nil, fmt.Errorf("asked about %d branches at once; at most %d", len(xids), lookupPage)
	}
	var keys []Key
	var at []int
	for i, xid := range xids {
		if k, ok := r.parse(xid); ok {
			keys, at = append(keys, k), append(at, i)
		}
	}
	is := make([]bool, len(xids))
	if len(keys) == 0 {
		return is, nil
	}
	known, err := r.lookup(ctx, keys)
	if err != nil {
		return nil, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for i, k := range keys {
		forgotten := known[i].State == 0 && time.Since(k.TX.Time()) >= known[i].RetentionHorizon // otherwise it is lost, and an operator may need it
		finished := known[i].State.Finished() && known[i].Heuristic == 0
		is[at[i]] = (forgotten || finished) && !r.busyLocked(k)
	}
	return is, nil
}

// busyLocked reports whether a call for the branch is under way, or its result
// still to be recorded; mu is held. After the log has the transaction as
// finished, false is final: every call reads the log first.
func (r *Recovery) busyLocked(k Key) bool {
	for v := Commit; v <= ResolveOutcome; v++ {
		if r.attempts[item{k, v}] != nil {
			return true
		}
	}
	return r.reporter.batches[k.TX] != nil
}
