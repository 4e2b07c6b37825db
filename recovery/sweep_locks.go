package recovery

import (
	"context"
	"fmt"

	"github.com/txmgr/txmgr/txn/admin"
)

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
	held, beyond := r.visits.scanner.ReadLocks(ctx, name)
	found, err := r.scanAndRecord(ctx, name)
	if err != nil {
		return nil, fmt.Errorf("inspect locks of %s: %w", name, err)
	}
	results := scanResults(newSweepTasks(found.Orphans), found.Left)
	if beyond == nil {
		results, beyond = r.visits.scanner.MergeLocks(ctx, name, results, held)
	}
	if beyond != nil {
		return results, fmt.Errorf("inspect locks of %s: %w", name, beyond)
	}
	return results, nil
}
