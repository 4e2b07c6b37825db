package ledger

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"go.etcd.io/bbolt"

	"github.com/txmgr/txmgr/participant"
	"github.com/txmgr/txmgr/txn"
	"github.com/txmgr/txmgr/txn/admin"
)

// Kind is the kind of participant under which a ledger is registered.
const Kind = "ledger"

// Driver makes the coordinator's side of a ledger. Its only setting is "path", the absolute
// path of the file, which every node must be able to open. It implements [participant.Driver].
func Driver(_ context.Context, p admin.Participant, cluster string) (participant.Participant, error) {
	for key := range p.Settings {
		if key != "path" {
			return nil, fmt.Errorf("%w: ledger %s: unknown setting %q; the only one is path", txn.ErrInvalid, p.Name, key)
		}
	}
	path := p.Settings["path"]
	if !filepath.IsAbs(path) {
		return nil, fmt.Errorf("%w: ledger %s: path %q: want an absolute path, which means the same to every node", txn.ErrInvalid, p.Name, path)
	}
	return &resourceManager{name: p.Name, prefix: txn.ClusterPrefix(cluster), store: newStore(path)}, nil
}

// resourceManager is the coordinator's side.
type resourceManager struct {
	name   string
	prefix string
	store  *store
}

// Commit implements [participant.Participant].
func (r *resourceManager) Commit(ctx context.Context, b participant.Branch) (participant.Result, error) {
	return r.finish(ctx, b, commit)
}

// Rollback implements [participant.Participant]. The application holds no lock before it has
// prepared, so there is nothing to fence; what it prepares later is refused. That no end of a branch is
// on record proves nothing if its record may have been forgotten before the coordinator was restored.
func (r *resourceManager) Rollback(ctx context.Context, b participant.Branch) (participant.Result, error) {
	if !b.BeforeRestore {
		return r.finish(ctx, b, rollback)
	}
	since, _ := parseStartMark(b.SessionRef) // without one, nothing may have been forgotten yet
	return r.finish(ctx, b, func(tx *bbolt.Tx, xid string, now time.Time) (participant.BranchOutcome, error) {
		if _, prepared, err := load(tx, bucketPrepared, xid, decodeBranch); err != nil || prepared {
			return rollback(tx, xid, now)
		}
		return resolveOutcome(tx, xid, since, now)
	})
}

func (r *resourceManager) finish(ctx context.Context, b participant.Branch, how finishFunc) (participant.Result, error) {
	if err := r.own(b); err != nil {
		return participant.Result{}, err
	}
	return r.result(r.store.finish(ctx, b.XID, how))
}

// own refuses branches of other clusters.
func (r *resourceManager) own(b participant.Branch) error {
	if !strings.HasPrefix(b.XID, r.prefix) {
		return fmt.Errorf("%w: ledger %s: branch %q is not of this cluster", txn.ErrInvalid, r.name, b.XID)
	}
	return nil
}

func (r *resourceManager) result(outcome participant.BranchOutcome, err error) (participant.Result, error) {
	if err != nil {
		return participant.Result{}, err
	}
	detail := recordDetail
	if outcome == participant.Unknown {
		detail = unknownDetail
	}
	return participant.Result{Outcome: outcome, Detail: detail}, nil
}

const (
	recordDetail  = "the ledger's own record"
	unknownDetail = "not prepared, and no end is on record"
)

// Prepared implements [participant.Participant].
func (r *resourceManager) Prepared(ctx context.Context, prefix string) ([]participant.Prepared, error) {
	all, err := r.store.prepared(ctx)
	var list []participant.Prepared
	for _, p := range all {
		if strings.HasPrefix(p.XID, prefix) {
			list = append(list, participant.Prepared{XID: p.XID, Since: p.Since, Owner: "accounts " + strings.Join(p.Accounts, ", ")})
		}
	}
	return list, err
}

// Check implements [participant.Participant]: the file can be opened, locked and
// written.
func (r *resourceManager) Check(ctx context.Context) error {
	return r.store.update(ctx, func(*bbolt.Tx) error { return nil })
}

// Close implements [participant.Participant]. Nothing is held between calls.
func (*resourceManager) Close() error { return nil }
