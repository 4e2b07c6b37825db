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
	_ participant.Surveyor  = (*resource)(nil)
	_ participant.Inspector = (*resource)(nil)
	_ participant.Examiner  = (*resource)(nil)
)

// peek is view, without making a file that is not there.
func (s *store) peek(ctx context.Context, do func(*bbolt.Tx) error) error {
	err := s.look(ctx, do)
	if errors.Is(err, errNew) {
		return nil
	}
	return err
}

// maxLines bounds a list for people, its last line included.
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

// Survey implements [participant.Surveyor]. Nobody waits for a ledger's locks: who
// meets one is refused.
func (r *resource) Survey(ctx context.Context) (list []participant.Held, err error) {
	err = r.store.peek(ctx, func(tx *bbolt.Tx) error {
		return each(tx, bucketPrepared, decodeBranch, func(xid string, br branch) error {
			list = append(list, participant.Held{
				Prepared: participant.Prepared{XID: xid, Since: br.since},
				Locks:    accountLines(br.accounts()),
			})
			return nil
		})
	})
	return list, err
}

// Inspect implements [participant.Inspector].
func (r *resource) Inspect(ctx context.Context, b participant.Branch) (t participant.Testimony, err error) {
	if err := r.own(b); err != nil {
		return t, err
	}
	since, _ := parseBegun(b.Session)
	t = participant.Testimony{Detail: "not prepared, and no end is on record yet: its session may be at work, or gone"}
	err = r.store.peek(ctx, func(tx *bbolt.Tx) error {
		br, prepared, err := load(tx, bucketPrepared, b.XID, decodeBranch)
		if err != nil {
			return err
		}
		if prepared {
			t = participant.Testimony{Prepared: true, Since: br.since, Detail: recordDetail, Locks: accountLines(br.accounts())}
			return nil
		}
		e, ended, err := load(tx, bucketEnds, b.XID, decodeEnd)
		if err != nil {
			return err
		}
		if ended {
			t = participant.Testimony{Ending: e.ending, Detail: recordDetail}
			return nil
		}
		if old, err := forgot(tx, since); err != nil || !old {
			return err
		}
		t = participant.Testimony{Ending: participant.Unknown, Detail: unknownDetail + "; older ends have been forgotten"}
		return nil
	})
	return t, err
}

// Examine implements [participant.Examiner].
func (r *resource) Examine(ctx context.Context) []participant.Diagnosis {
	return []participant.Diagnosis{r.examinePath(), r.examineDisk(), r.examineContent(ctx)}
}

func (r *resource) examinePath() participant.Diagnosis {
	const subject = "path"
	path, dir := r.store.path, filepath.Dir(r.store.path)
	d := participant.Diagnosis{Level: participant.Failure, Subject: subject}
	if info, err := os.Stat(dir); err != nil || !info.IsDir() {
		d.Found = fmt.Sprintf("there is no directory %s on this node: %v", dir, err)
		d.Fix = "mkdir -p " + dir
		return d
	}
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	switch {
	case errors.Is(err, os.ErrNotExist):
		d.Level, d.Found = participant.Fine, fmt.Sprintf("%s is not there yet; it is made when first used", path)
		return d
	case err != nil:
		d.Found = fmt.Sprintf("the file cannot be written: %v", err)
		d.Fix = fmt.Sprintf("let the user that txmgr runs as write it: chown USER %s", path)
		return d
	}
	if err := f.Close(); err != nil {
		d.Found = err.Error()
		return d
	}
	d.Level, d.Found = participant.Fine, path+" can be written"
	return d
}

// littleSpace is below what a ledger may soon need: the file grows in steps, and
// is never made smaller.
const littleSpace = 1 << 30

func (r *resource) examineDisk() participant.Diagnosis {
	d := participant.Diagnosis{Level: participant.Fine, Subject: "disk"}
	free, err := freeBytes(filepath.Dir(r.store.path))
	switch {
	case err != nil:
		d.Level, d.Found = participant.Warning, fmt.Sprintf("how much space is free cannot be found out: %v", err)
	case free < littleSpace:
		d.Level, d.Found = participant.Warning, fmt.Sprintf("%d MiB are free: after the first write that fails, this process does nothing more with the ledger", free>>20)
		d.Fix = "make room on the disk of " + r.store.path
	default:
		d.Found = fmt.Sprintf("%d GiB are free", free>>30)
	}
	return d
}

func (r *resource) examineContent(ctx context.Context) participant.Diagnosis {
	d := participant.Diagnosis{Level: participant.Fine, Subject: "content", Found: "all checksums are right, and every lock has its branch"}
	if err := r.store.peek(ctx, verify); err != nil {
		d.Level, d.Found = participant.Failure, err.Error()
		if errors.Is(err, ErrCorrupt) {
			d.Fix = "restore the file from a backup; a branch that was prepared after that backup is lost"
		}
	}
	return d
}
