package recovery

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/txmgr/txmgr/participant"
	"github.com/txmgr/txmgr/txn"
	"github.com/txmgr/txmgr/txn/admin"
)

// lookupPage is the number of branches in one lookup in the log.
const lookupPage = 1000

// The classes of scan results.
const (
	classLeave         = "leave"
	classCommit        = "commit"
	classRollback      = "rollback"
	classForeign       = "foreign"
	classOrphanedLocks = "orphaned-locks"
	classUnreachable   = "unreachable"
)

// Unreachable is the scan result for a participant whose sweep or lock inspection failed,
// so that there may be more than was found.
func Unreachable(name string, err error) admin.ScanResult {
	return admin.ScanResult{Participant: name, Class: classUnreachable, Error: redact(err.Error())}
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
	sweepTasks, left, err := r.scanAndRecord(ctx, name)
	if err != nil {
		return nil, fmt.Errorf("sweep %s: %w", name, err)
	}
	if apply {
		r.runSweepTasks(ctx, name, sweepTasks)
	}
	return scanResults(sweepTasks, left), nil
}

func scanResults(sweepTasks []*sweepTask, left []admin.ScanResult) []admin.ScanResult {
	results := make([]admin.ScanResult, 0, len(sweepTasks)+len(left))
	for _, j := range sweepTasks {
		results = append(results, j.result)
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
	r.wg.Add(1)
	l := r.laneLocked(name)
	r.mu.Unlock()

	ctx, cancel := context.WithCancel(ctx)
	unhook := context.AfterFunc(r.ctx, cancel)
	end := func() { unhook(); cancel(); r.wg.Done() }
	select {
	case l.sweeping <- struct{}{}:
		return ctx, func() { <-l.sweeping; end() }, nil
	case <-ctx.Done():
		end()
		return nil, nil, fmt.Errorf("another sweep is under way: %w", ctx.Err())
	}
}

// preparedBranch is one prepared branch of this cluster.
type preparedBranch struct {
	Key
	participant.Prepared
}

// errPaused keeps a sweep from acting.
var errPaused = fmt.Errorf("%w: the coordinator was restored from a backup, and touches nothing before it is resumed", txn.ErrUnavailable)

// errListPrepared marks failures of the participant.
var errListPrepared = errors.New("see what is prepared there")

// scanAndRecord scans, and records for Health how that went.
func (r *Recovery) scanAndRecord(ctx context.Context, name string) (sweepTasks []*sweepTask, left []admin.ScanResult, err error) {
	begun := time.Now()
	sweepTasks, left, err = r.scan(ctx, name)
	r.recordSweep(name, len(sweepTasks), time.Since(begun), err)
	return sweepTasks, left, err
}

// scan finds what is to be done. The order of its three reads makes it safe
// beside live transactions: see the package's invariant 5.
func (r *Recovery) scan(ctx context.Context, name string) (sweepTasks []*sweepTask, left []admin.ScanResult, err error) {
	p, err := r.open(ctx, name)
	if err != nil {
		return nil, nil, err
	}
	first, err := r.listPrepared(ctx, p)
	if err != nil {
		return nil, nil, err
	}
	r.rotate(first)
	for len(first) > 0 {
		n := min(len(first), lookupPage)
		known, err := r.lookup(ctx, keysOf(first[:n]))
		if err != nil {
			return nil, nil, err
		}
		for i, s := range first[:n] {
			j := newSweepTask(name, s, known[i])
			switch {
			case j.action != 0 && len(sweepTasks) < r.cfg.SweepLimit:
				sweepTasks = append(sweepTasks, j)
			case j.action == 0 && len(left) < r.cfg.SweepLimit:
				left = append(left, j.result)
			}
			if known[i].Unfinished {
				r.Add(s.TX) // in case the hint was lost
			}
		}
		first = first[n:]
	}
	if len(sweepTasks) == 0 {
		return nil, left, nil
	}
	second, err := r.listPrepared(ctx, p)
	if err != nil {
		return nil, nil, err
	}
	return stillPrepared(sweepTasks, second), left, nil
}

func keysOf(page []preparedBranch) []Key {
	keys := make([]Key, len(page))
	for i, s := range page {
		keys[i] = s.Key
	}
	return keys
}

// rotate begins at a random position, so that branches that cannot be ended do
// not keep those behind the limit from being found.
func (r *Recovery) rotate(s []preparedBranch) {
	if len(s) <= r.cfg.SweepLimit {
		return
	}
	at := int(r.cfg.Rand() * float64(len(s)))
	copy(s, append(append([]preparedBranch(nil), s[at:]...), s[:at]...))
}

// stillPrepared keeps the tasks whose branch is still prepared.
func stillPrepared(sweepTasks []*sweepTask, second []preparedBranch) []*sweepTask {
	there := make(map[Key]bool, len(second))
	for _, s := range second {
		there[s.Key] = true
	}
	kept := sweepTasks[:0]
	for _, j := range sweepTasks {
		if there[Key{j.branch.TX, j.branch.ID}] {
			kept = append(kept, j)
		}
	}
	return kept
}

func (r *Recovery) open(ctx context.Context, name string) (participant.Participant, error) {
	ctx, cancel := context.WithTimeout(ctx, r.cfg.CallTimeout)
	defer cancel()
	p, err := r.log.Participant(ctx, name)
	if err != nil {
		return nil, fmt.Errorf("%w: open participant: %w", errListPrepared, timeoutError(ctx, r.cfg.CallTimeout, err))
	}
	return p, nil
}

// listPrepared lists what is prepared at a participant, and keeps what is certainly this
// cluster's, whatever the participant returns.
func (r *Recovery) listPrepared(ctx context.Context, p participant.Participant) (ours []preparedBranch, err error) {
	ctx, cancel := context.WithTimeout(ctx, r.cfg.CallTimeout)
	defer cancel()
	defer func() {
		if err != nil {
			err = fmt.Errorf("%w: %w", errListPrepared, timeoutError(ctx, r.cfg.CallTimeout, err))
		}
	}()
	defer recoverPanic(&err)
	ps, err := p.Prepared(ctx, txn.ClusterPrefix(r.cfg.Cluster))
	if err != nil {
		return nil, err
	}
	for _, prepared := range ps {
		if k, ok := r.parse(prepared.XID); ok {
			ours = append(ours, preparedBranch{k, prepared})
		}
	}
	return ours, nil
}

// parse reads a branch's name; false when it is not this cluster's.
func (r *Recovery) parse(xid string) (Key, bool) {
	cluster, id, branch, ok := txn.ParseXID(xid)
	return Key{id, branch}, ok && cluster == r.cfg.Cluster
}

// lookup reads at most one page of branches in the log.
func (r *Recovery) lookup(ctx context.Context, keys []Key) ([]BranchStatus, error) {
	ctx, cancel := context.WithTimeout(ctx, r.cfg.CallTimeout)
	defer cancel()
	known, err := r.log.Lookup(ctx, keys)
	if err != nil {
		return nil, fmt.Errorf("ask the log about them: %w", err)
	}
	if len(known) != len(keys) {
		return nil, fmt.Errorf("ask the log about them: %d answers to %d questions", len(known), len(keys))
	}
	return known, nil
}

// orphanAction returns what has to be done with a branch that has been prepared for age,
// as far as that is known, and whose transaction began that long ago; zero means
// to leave it.
func orphanAction(k BranchStatus, age, begun time.Duration) Action {
	switch {
	case k.State == 0 && k.RetentionHorizon > 0 && (age >= k.RetentionHorizon || begun < k.RetentionHorizon):
		return 0 // its decision, if any, may be forgotten, or lost: see the package's invariant 7
	case k.State == 0:
		return Rollback // forgotten since, or never begun: it will never be committed
	case !k.State.Decided() || k.Unfinished:
		return 0
	case !k.State.Commits():
		return Rollback
	case k.Branch.ID == 0:
		return 0 // it never voted: only an operator can say what it is
	}
	return Commit
}

// recordSweep records how a sweep went. A scan that succeeded lets a probe through, and
// when it found nothing to do, and the lane is idle, no failure is left.
func (r *Recovery) recordSweep(name string, found int, took time.Duration, err error) {
	now := r.now()
	r.mu.Lock()
	defer r.mu.Unlock()
	l := r.laneLocked(name)
	switch {
	case r.ctx.Err() != nil:
	case err != nil:
		l.scanFailed, l.sweepErr = errors.Is(err, errListPrepared), redact("sweep: "+err.Error())
		if l.scanFailed {
			l.took = took
			l.noteContactLocked()
		}
	default:
		l.scanFailed, l.sweepErr = false, ""
		l.br.allowProbe(now)
		if found == 0 && l.idle() {
			l.clearFailuresLocked()
		}
		l.updateHealthLocked()
		r.wake()
	}
}

// sweepOnce reports whether the prepared branches could be listed.
func (r *Recovery) sweepOnce(ctx context.Context, name string) bool {
	ctx, cancel := context.WithTimeout(ctx, 6*r.cfg.CallTimeout)
	defer cancel()
	results, err := r.Sweep(ctx, name, true) // an error is kept for Health
	for _, f := range results {
		if (f.Class != classLeave || f.Error != "") && r.cfg.OnScanResult != nil {
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
