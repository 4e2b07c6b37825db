package recovery

import (
	"context"
	"errors"
	"fmt"

	"github.com/txmgr/txmgr/participant"
	"github.com/txmgr/txmgr/txn/admin"
)

// maxLockLines is the number of lines about locks, or about waiters, in one scan result.
const maxLockLines = 21

// InspectLocks shows the operator what is prepared at a participant: what a sweep would do,
// and, where the participant is a [participant.LockInspector], what each branch has
// locked, which transactions wait for that, the branches of others, and orphaned locks. It
// changes nothing. Branches of others have the name that the participant has for
// them, and no id. The results are those of the sweep, then the orphaned locks, then the
// branches of others, each at most Config.SweepLimit.
//
// An error may come with results: those of the sweep, when only the locks
// could not be read.
func (r *Recovery) InspectLocks(ctx context.Context, name string) ([]admin.ScanResult, error) {
	ctx, leave, err := r.enterSweep(ctx, name)
	if err != nil {
		return nil, fmt.Errorf("inspect locks of %s: %w", name, err)
	}
	defer leave()
	// The locks are read first: a branch that the sweep does not list afterwards has ended.
	held, beyond := r.readLocks(ctx, name)
	sweepTasks, left, err := r.scanAndRecord(ctx, name)
	if err != nil {
		return nil, fmt.Errorf("inspect locks of %s: %w", name, err)
	}
	results := scanResults(sweepTasks, left)
	if beyond == nil {
		results, beyond = r.mergeLocks(ctx, name, results, held)
	}
	if beyond != nil {
		return results, fmt.Errorf("inspect locks of %s: %w", name, beyond)
	}
	return results, nil
}

func (r *Recovery) readLocks(ctx context.Context, name string) (held []participant.PreparedDetails, err error) {
	p, err := r.open(ctx, name)
	if err != nil {
		return nil, err
	}
	s, ok := p.(participant.LockInspector)
	if !ok {
		return nil, nil
	}
	ctx, cancel := context.WithTimeout(ctx, r.cfg.CallTimeout)
	defer cancel()
	defer func() {
		if err != nil {
			err = fmt.Errorf("read its locks: %w", timeoutError(ctx, r.cfg.CallTimeout, err))
		}
	}()
	defer recoverPanic(&err)
	return s.InspectLocks(ctx)
}

// mergeLocks adds to the results of a sweep what the lock inspection found.
func (r *Recovery) mergeLocks(ctx context.Context, name string, fs []admin.ScanResult, held []participant.PreparedDetails) ([]admin.ScanResult, error) {
	at := make(map[string]int, len(fs))
	for i := range fs {
		at[fs[i].XID] = i
	}
	var orphaned, foreign []admin.ScanResult
	for _, h := range held {
		k, ours := r.parse(h.XID)
		switch i, found := at[h.XID]; {
		case h.Orphaned && len(orphaned) < r.cfg.SweepLimit:
			f := scanResultOf(name, h, classOrphanedLocks)
			f.Error = orphanedLocksHelp
			if ours {
				f.ID, f.Branch = k.TX, k.Branch
			}
			orphaned = append(orphaned, f)
		case h.Orphaned:
		case found:
			fs[i].Locks, fs[i].Waiters = redactLines(h.Locks), redactLines(h.Waiters)
		case !ours && len(foreign) < r.cfg.SweepLimit:
			foreign = append(foreign, scanResultOf(name, h, classForeign))
		}
	}
	err := r.lookupOrphaned(ctx, orphaned)
	return append(append(fs, orphaned...), foreign...), err
}

func scanResultOf(name string, h participant.PreparedDetails, verdict string) admin.ScanResult {
	return admin.ScanResult{
		Participant: name, XID: printable(h.XID), Since: h.Since, Owner: redact(h.Owner),
		Locks: redactLines(h.Locks), Waiters: redactLines(h.Waiters), Class: verdict,
	}
}

// orphanedLocksHelp says what to do about orphaned locks.
const orphanedLocksHelp = "its locks are held, but it is not listed as prepared and cannot be ended: " +
	"restart the server, then it is listed again"

// lookupOrphaned adds the log's state to the orphaned locks of this cluster's branches.
func (r *Recovery) lookupOrphaned(ctx context.Context, orphaned []admin.ScanResult) error {
	var of []*admin.ScanResult
	for i := range orphaned {
		if !orphaned[i].ID.IsZero() {
			of = append(of, &orphaned[i])
		}
	}
	for len(of) > 0 {
		page := of[:min(len(of), lookupPage)]
		keys := make([]Key, len(page))
		for i, f := range page {
			keys[i] = Key{f.ID, f.Branch}
		}
		known, err := r.lookup(ctx, keys)
		if err != nil {
			return errors.Join(errors.New("orphaned locks are shown without their transactions' states"), err)
		}
		for i, f := range page {
			f.State = known[i].State
		}
		of = of[len(page):]
	}
	return nil
}

// redactLines makes a participant's texts fit to be shown.
func redactLines(ss []string) []string {
	var fit []string
	for _, s := range ss[:min(len(ss), maxLockLines)] {
		fit = append(fit, redact(s))
	}
	return fit
}
