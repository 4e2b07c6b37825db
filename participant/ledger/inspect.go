package ledger

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"go.etcd.io/bbolt"

	"github.com/txmgr/txmgr/participant"
)

var (
	_ participant.LockInspector = (*resourceManager)(nil)
	_ participant.Inspector     = (*resourceManager)(nil)
	_ participant.HealthChecker = (*resourceManager)(nil)
)

// viewIfExists is view without creating a file that does not exist.
func (s *store) viewIfExists(ctx context.Context, do func(*bbolt.Tx) error) error {
	err := s.readOnce(ctx, do)
	if errors.Is(err, errNewFile) {
		return nil
	}
	return err
}

// maxLines bounds a list for the operator, its last line included.
const maxLines = 20

func accountLines(names []string) (lines []string) {
	for i, name := range names {
		if i == maxLines-1 && len(names) > maxLines {
			return append(lines, fmt.Sprintf("and %d more", len(names)-i))
		}
		lines = append(lines, "account "+name)
	}
	return lines
}

// InspectLocks implements [participant.LockInspector]. A ledger's locks have no waiters: a
// branch that meets one is refused.
func (r *resourceManager) InspectLocks(ctx context.Context) (list []participant.PreparedDetails, err error) {
	err = r.store.viewIfExists(ctx, func(tx *bbolt.Tx) error {
		return each(tx, bucketPrepared, decodeBranch, func(xid string, br branch) error {
			list = append(list, participant.PreparedDetails{
				Prepared: participant.Prepared{XID: xid, Since: br.since},
				Locks:    accountLines(br.accounts()),
			})
			return nil
		})
	})
	return list, err
}

// Inspect implements [participant.Inspector].
func (r *resourceManager) Inspect(ctx context.Context, b participant.Branch) (t participant.BranchReport, err error) {
	if err := r.own(b); err != nil {
		return t, err
	}
	since, _ := parseStartMark(b.SessionRef)
	t = participant.BranchReport{Detail: "not prepared, and no end is on record yet: its session may be at work, or gone"}
	err = r.store.viewIfExists(ctx, func(tx *bbolt.Tx) error {
		br, prepared, err := load(tx, bucketPrepared, b.XID, decodeBranch)
		if err != nil {
			return err
		}
		if prepared {
			t = participant.BranchReport{Prepared: true, Since: br.since, Detail: recordDetail, Locks: accountLines(br.accounts())}
			return nil
		}
		e, ended, err := load(tx, bucketOutcomes, b.XID, decodeOutcome)
		if err != nil {
			return err
		}
		if ended {
			t = participant.BranchReport{Outcome: e.outcome, Detail: recordDetail}
			return nil
		}
		if old, err := mayHaveForgotten(tx, since); err != nil || !old {
			return err
		}
		t = participant.BranchReport{Outcome: participant.Unknown, Detail: unknownDetail + "; older ends have been forgotten"}
		return nil
	})
	return t, err
}

// CheckHealth implements [participant.HealthChecker].
func (r *resourceManager) CheckHealth(ctx context.Context) []participant.Check {
	return []participant.Check{r.checkPath(), r.checkDisk(), r.checkContent(ctx)}
}

func (r *resourceManager) checkPath() participant.Check {
	const subject = "path"
	path, dir := r.store.path, filepath.Dir(r.store.path)
	d := participant.Check{Level: participant.Failure, Subject: subject}
	if info, err := os.Stat(dir); err != nil || !info.IsDir() {
		d.Message = fmt.Sprintf("there is no directory %s on this node: %v", dir, err)
		d.Remedy = "mkdir -p " + dir
		return d
	}
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	switch {
	case errors.Is(err, os.ErrNotExist):
		d.Level, d.Message = participant.OK, fmt.Sprintf("%s is not there yet; it is made when first used", path)
		return d
	case err != nil:
		d.Message = fmt.Sprintf("the file cannot be written: %v", err)
		d.Remedy = fmt.Sprintf("let the user that txmgr runs as write it: chown USER %s", path)
		return d
	}
	if err := f.Close(); err != nil {
		d.Message = err.Error()
		return d
	}
	d.Level, d.Message = participant.OK, path+" can be written"
	return d
}

// lowDiskBytes is the free space below which a ledger may soon run out: the file grows in
// steps, and never shrinks.
const lowDiskBytes = 1 << 30

func (r *resourceManager) checkDisk() participant.Check {
	d := participant.Check{Level: participant.OK, Subject: "disk"}
	free, err := freeBytes(filepath.Dir(r.store.path))
	switch {
	case err != nil:
		d.Level, d.Message = participant.Warning, fmt.Sprintf("how much space is free cannot be found out: %v", err)
	case free < lowDiskBytes:
		d.Level, d.Message = participant.Warning, fmt.Sprintf("%d MiB are free: after the first write that fails, this process does nothing more with the ledger", free>>20)
		d.Remedy = "make room on the disk of " + r.store.path
	default:
		d.Message = fmt.Sprintf("%d GiB are free", free>>30)
	}
	return d
}

func (r *resourceManager) checkContent(ctx context.Context) participant.Check {
	d := participant.Check{Level: participant.OK, Subject: "content", Message: "all checksums are right, and every lock has its branch"}
	if err := r.store.viewIfExists(ctx, verify); err != nil {
		d.Level, d.Message = participant.Failure, err.Error()
		if errors.Is(err, ErrCorrupt) {
			d.Remedy = "restore the file from a backup; a branch that was prepared after that backup is lost"
		}
	}
	return d
}
