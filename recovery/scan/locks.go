package scan

import (
	"context"
	"errors"
	"fmt"

	"github.com/txmgr/txmgr/internal/redact"
	"github.com/txmgr/txmgr/participant"
	"github.com/txmgr/txmgr/recovery/call"
	"github.com/txmgr/txmgr/recovery/plan"
	"github.com/txmgr/txmgr/txn/admin"
)

// maxLockLines is the number of lines about locks, or about waiters, in one scan result.
const maxLockLines = 21

// ReadLocks reads what a participant that is a [participant.LockInspector] has locked; nil
// when it is none.
func (s *Scanner) ReadLocks(ctx context.Context, name string) (held []participant.PreparedDetails, err error) {
	p, err := s.open(ctx, name)
	if err != nil {
		return nil, err
	}
	inspector, ok := p.(participant.LockInspector)
	if !ok {
		return nil, nil
	}
	ctx, cancel := context.WithTimeout(ctx, s.CallTimeout)
	defer cancel()
	defer func() {
		if err != nil {
			err = fmt.Errorf("read its locks: %w", call.TimeoutError(ctx, s.CallTimeout, err))
		}
	}()
	defer call.RecoverPanic(&err)
	return inspector.InspectLocks(ctx)
}

// MergeLocks adds to the results of a sweep what the lock inspection found.
func (s *Scanner) MergeLocks(ctx context.Context, name string, fs []admin.ScanResult, held []participant.PreparedDetails) ([]admin.ScanResult, error) {
	at := make(map[string]int, len(fs))
	for i := range fs {
		at[fs[i].XID] = i
	}
	var orphaned, foreign []admin.ScanResult
	for _, h := range held {
		k, ours := s.parse(h.XID)
		switch i, found := at[h.XID]; {
		case h.Orphaned && len(orphaned) < s.Limit:
			f := scanResultOf(name, h, classOrphanedLocks)
			f.Error = orphanedLocksHelp
			if ours {
				f.ID, f.Branch = k.TX, k.Branch
			}
			orphaned = append(orphaned, f)
		case h.Orphaned:
		case found:
			fs[i].Locks, fs[i].Waiters = redactLines(h.Locks), redactLines(h.Waiters)
		case !ours && len(foreign) < s.Limit:
			foreign = append(foreign, scanResultOf(name, h, classForeign))
		}
	}
	err := s.lookupOrphaned(ctx, orphaned)
	return append(append(fs, orphaned...), foreign...), err
}

func scanResultOf(name string, h participant.PreparedDetails, verdict string) admin.ScanResult {
	return admin.ScanResult{
		Participant: name, XID: redact.Printable(h.XID), Since: h.Since, Owner: redact.Text(h.Owner),
		Locks: redactLines(h.Locks), Waiters: redactLines(h.Waiters), Class: verdict,
	}
}

// orphanedLocksHelp says what to do about orphaned locks.
const orphanedLocksHelp = "its locks are held, but it is not listed as prepared and cannot be ended: " +
	"restart the server, then it is listed again"

// lookupOrphaned adds the log's state to the orphaned locks of this cluster's branches.
func (s *Scanner) lookupOrphaned(ctx context.Context, orphaned []admin.ScanResult) error {
	var of []*admin.ScanResult
	for i := range orphaned {
		if !orphaned[i].ID.IsZero() {
			of = append(of, &orphaned[i])
		}
	}
	for len(of) > 0 {
		page := of[:min(len(of), lookupPage)]
		keys := make([]plan.Key, len(page))
		for i, f := range page {
			keys[i] = plan.Key{TX: f.ID, Branch: f.Branch}
		}
		known, err := s.lookup(ctx, keys)
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
func redactLines(lines []string) []string {
	var fit []string
	for _, line := range lines[:min(len(lines), maxLockLines)] {
		fit = append(fit, redact.Text(line))
	}
	return fit
}
