package node

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/hashicorp/raft"

	"github.com/txmgr/txmgr/node/backup"
	"github.com/txmgr/txmgr/raftfsm"
	"github.com/txmgr/txmgr/txn"
	"github.com/txmgr/txmgr/txn/admin"
)

// Backup implements [admin.Cluster].
func (n adminCalls) Backup(ctx context.Context, w io.Writer) (admin.Backup, error) {
	b, err := n.backup(ctx, w)
	if err != nil {
		return b, txn.Wrap("snapshot save", txn.ID{}, err)
	}
	return b, nil
}

func (n *Node) backup(ctx context.Context, w io.Writer) (b admin.Backup, err error) {
	if err := n.requireReadable(ctx); err != nil {
		return b, err
	}
	if n.clusterID() == "" {
		return b, fmt.Errorf("%w: there is no state yet: the cluster is being formed", txn.ErrUnavailable)
	}
	taken := n.conf.wall().UTC().Truncate(time.Millisecond)
	meta, snapshot, err := n.openFreshSnapshot()
	if err != nil {
		return b, fmt.Errorf("%w: %w", txn.ErrUnavailable, err)
	}
	defer snapshot.Close()
	state, whole, err := raftfsm.ReadHeader(snapshot)
	if err != nil {
		return b, err
	}
	return backup.Write(ctx, w, backup.Header{
		Cluster: state.Bootstrap.Cluster, Incarnation: state.Incarnation, Index: meta.Index, Term: meta.Term,
		Tick: uint64(state.Tick), Taken: taken, Release: Version(), Snapshot: meta.Size,
	}, whole)
}

// openFreshSnapshot takes a snapshot and opens it. It retries because raft takes none when
// nothing was applied since it started, and because snapshots taken at the same time may
// replace this one before it is open.
func (n *Node) openFreshSnapshot() (meta *raft.SnapshotMeta, r io.ReadCloser, err error) {
	for range 3 {
		f, failed := n.snapshots.Take()
		switch {
		case f == nil:
			err = fmt.Errorf("taking a snapshot: %w", failed)
			if n.raft.Barrier(0).Error() != nil { // writes an entry
				return nil, nil, err
			}
			continue
		case failed != nil:
			n.conf.Logger.Warn("the log was not shortened after a snapshot", "error", failed)
		}
		if meta, r, err = f.Open(); err == nil {
			return meta, r, nil
		}
		err = fmt.Errorf("reading the snapshot: %w", err)
	}
	return nil, nil, err
}
