package recovery

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/txmgr/txmgr/internal/redact"
	"github.com/txmgr/txmgr/recovery/scan"
	"github.com/txmgr/txmgr/txn"
	"github.com/txmgr/txmgr/txn/admin"
)

// Unreachable is the scan result for a participant whose sweep or lock inspection failed,
// so that there may be more than was found.
func Unreachable(name string, err error) admin.ScanResult {
	return admin.ScanResult{Participant: name, Class: scan.ClassUnreachable, Error: redact.Text(err.Error())}
}

// Sweep looks for branches of this cluster that are prepared at a participant although
// nothing drives them, and, with apply, ends them as the log decided: a commit is
// committed, a rollback and what the log does not know are rolled back. It returns
// what it found: what it acts on first, then what it leaves, each at most
// Config.SweepLimit; the next sweep finds the rest.
//
// An error means that the scan failed; then nothing was touched. A branch that
// could not be ended has the error in its own result. When ctx ends, the results so far
// say what was done.
func (r *Recovery) Sweep(ctx context.Context, name string, apply bool) ([]admin.ScanResult, error) {
	if apply && r.log.RecoveryPaused() {
		return nil, fmt.Errorf("sweep %s: %w", name, errPaused)
	}
	ctx, leave, err := r.enterSweep(ctx, name)
	if err != nil {
		return nil, fmt.Errorf("sweep %s: %w", name, err)
	}
	defer leave()
	found, err := r.scanAndRecord(ctx, name)
	if err != nil {
		return nil, fmt.Errorf("sweep %s: %w", name, err)
	}
	sweepTasks := newSweepTasks(found.Orphans)
	if apply {
		r.readDeciders(found.Deciders)
		r.runSweepTasks(ctx, name, sweepTasks)
	}
	return scanResults(sweepTasks, found.Left), nil
}

func scanResults(sweepTasks []*sweepTask, left []admin.ScanResult) []admin.ScanResult {
	results := make([]admin.ScanResult, 0, len(sweepTasks)+len(left))
	for _, j := range sweepTasks {
		results = append(results, j.Result)
	}
	return append(results, left...)
}

// enterSweep admits one sweep, lock inspection or pruning at a time at a participant, and
// makes Stop end it and wait for it.
func (r *Recovery) enterSweep(ctx context.Context, name string) (_ context.Context, leave func(), err error) {
	if !txn.ValidClusterID(r.cfg.Cluster) {
		return nil, nil, fmt.Errorf("%w: invalid cluster id %q: branches of this cluster cannot be identified",
			txn.ErrInvalid, r.cfg.Cluster)
	}
	r.mu.Lock()
	if r.state != running {
		r.mu.Unlock()
		return nil, nil, fmt.Errorf("%w: recovery does not run here; ask the leader", txn.ErrUnavailable)
	}
	r.life.wg.Add(1)
	l := r.laneLocked(name)
	r.mu.Unlock()

	ctx, cancel := context.WithCancel(ctx)
	unhook := context.AfterFunc(r.life.ctx, cancel)
	end := func() { unhook(); cancel(); r.life.wg.Done() }
	select {
	case l.sweeping <- struct{}{}:
		return ctx, func() { <-l.sweeping; end() }, nil
	case <-ctx.Done():
		end()
		return nil, nil, fmt.Errorf("another sweep is under way: %w", ctx.Err())
	}
}

// errPaused keeps a sweep from acting.
var errPaused = fmt.Errorf("%w: the coordinator was restored from a backup, and touches nothing before it is resumed", txn.ErrUnavailable)

// addPage is how many transactions are added at once: the log may wait for the lock.
const addPage = 1000

// scanAndRecord scans, and records for Health how that went.
func (r *Recovery) scanAndRecord(ctx context.Context, name string) (scan.Result, error) {
	begun := time.Now()
	found, err := r.visits.scanner.Scan(ctx, name)
	for page := range slices.Chunk(found.Unfinished, addPage) {
		r.Add(page...) // in case the hint was lost
	}
	r.recordSweep(name, len(found.Orphans), time.Since(begun), err)
	return found, err
}

// recordSweep records how a sweep went. A scan that succeeded lets a probe through, and
// when it found nothing to do, and the lane is idle, no failure is left.
func (r *Recovery) recordSweep(name string, found int, took time.Duration, err error) {
	now := r.now()
	r.mu.Lock()
	defer r.mu.Unlock()
	l := r.laneLocked(name)
	switch {
	case r.life.ctx.Err() != nil:
	case err != nil:
		l.health.recordSweepErrorLocked(took, err)
	default:
		l.health.recordSweepLocked(now, found == 0 && l.idle())
		r.wakeups.wake()
	}
}

// sweepOnce reports whether the prepared branches could be listed.
func (r *Recovery) sweepOnce(ctx context.Context, name string) bool {
	ctx, cancel := context.WithTimeout(ctx, 6*r.cfg.CallTimeout)
	defer cancel()
	results, err := r.Sweep(ctx, name, true) // an error is kept for Health
	for _, f := range results {
		if (f.Class != scan.ClassLeave || f.Error != "") && r.cfg.OnScanResult != nil {
			r.cfg.OnScanResult(f)
		}
	}
	return err == nil
}

// sleep waits; it reports false when ctx ended first.
func sleep(ctx context.Context, d time.Duration) bool {
	if d <= 0 {
		return ctx.Err() == nil
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}
