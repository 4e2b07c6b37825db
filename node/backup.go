package node

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/hashicorp/raft"

	"github.com/txmgr/txmgr/raftfsm"
	"github.com/txmgr/txmgr/txn"
	"github.com/txmgr/txmgr/txn/admin"
	"github.com/txmgr/txmgr/txn/machine"
)

// Backup writes a copy of the whole current state to w, and returns its description. The copy
// contains everything that was acknowledged before the call, unless [txn.AllowStale] permits the
// state that this node has. The coordinator keeps serving meanwhile. The state is copied from a
// snapshot on this node's disk, so that a slow receiver delays nothing and takes no memory.
// After an error, what was written is unusable.
func (n *Node) Backup(ctx context.Context, w io.Writer) (admin.Backup, error) {
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
	return writeBackup(w, backupHeader{
		Cluster: state.Bootstrap.Cluster, Incarnation: state.Incarnation, Index: meta.Index, Term: meta.Term,
		Tick: uint64(state.Tick), Taken: taken, Release: Version(), Snapshot: meta.Size,
	}, contextReader{ctx, whole})
}

// openFreshSnapshot takes a snapshot and opens it. It retries because raft takes none when
// nothing was applied since it started, and because snapshots taken at the same time may
// replace this one before it is open.
func (n *Node) openFreshSnapshot() (meta *raft.SnapshotMeta, r io.ReadCloser, err error) {
	for range 3 {
		f, failed := n.takeSnapshot()
		switch {
		case f == nil:
			err = fmt.Errorf("taking a snapshot: %w", failed)
			if n.raft.Barrier(0).Error() != nil { // writes an entry
				return nil, nil, err
			}
			continue
		case failed != nil:
			n.logger.Warn("the log was not shortened after a snapshot", "error", failed)
		}
		if meta, r, err = f.Open(); err == nil {
			return meta, r, nil
		}
		err = fmt.Errorf("reading the snapshot: %w", err)
	}
	return nil, nil, err
}

// contextReader is a reader that fails once its context has ended.
type contextReader struct {
	ctx context.Context
	r   io.Reader
}

func (i contextReader) Read(p []byte) (int, error) {
	if i.ctx.Err() != nil {
		return 0, fmt.Errorf("%w: %w", txn.ErrUnavailable, context.Cause(i.ctx))
	}
	return i.r.Read(p)
}

// BackupContents describes what is in a backup.
type BackupContents struct {
	Transactions int               `json:"transactions"`
	States       map[txn.State]int `json:"states"`
	Heuristics   int               `json:"heuristics"`
	// Participants are the registered participants, in the order of their registration.
	Participants   []BackupParticipant `json:"participants"`
	Members        int                 `json:"members"`
	Tokens         int                 `json:"tokens"`
	Audit          int                 `json:"audit"`           // records
	RecoveryPaused bool                `json:"recovery_paused"` // taken of a restored cluster whose recovery was paused
	Release        string              `json:"release"`
}

// BackupParticipant is a participant in a backup.
type BackupParticipant struct {
	Name string `json:"name"`
	Kind string `json:"kind"`
	// Branches is how many branches there were unfinished when the backup was taken: they
	// may be prepared, or have finished since.
	Branches int `json:"branches"`
}

// InspectBackup reads a backup to its end, verifies that it is intact, and returns its
// description and contents. It keeps one transaction in memory at a time.
//
// [ErrBadBackup]: r is not a backup, or the backup is damaged. [txn.ErrInvalid] alone: a newer
// release wrote it.
func InspectBackup(r io.Reader) (b admin.Backup, c BackupContents, err error) {
	in, err := openBackup(r)
	if err != nil {
		return b, c, err
	}
	state, txs, err := raftfsm.Stream(in.snapshot)
	if err != nil {
		return b, c, backupError(err)
	}
	c = BackupContents{
		States: make(map[txn.State]int), Members: len(state.Members), Tokens: len(state.Tokens),
		Audit: len(state.Audit), RecoveryPaused: state.RecoveryPaused, Release: in.header.Release,
	}
	open := make(map[string]int)
	for t, err := range txs {
		if err != nil {
			return b, c, backupError(err)
		}
		c.count(t, open)
	}
	for _, p := range state.Participants {
		if !p.Removed {
			c.Participants = append(c.Participants, BackupParticipant{Name: p.Name, Kind: p.Kind, Branches: open[p.Name]})
		}
	}
	b, err = in.finish()
	return b, c, err
}

func (c *BackupContents) count(t *machine.Transaction, open map[string]int) {
	c.Transactions++
	c.States[t.State]++
	if t.Heuristic != 0 {
		c.Heuristics++
	}
	for i := range t.Branches {
		if !t.Branches[i].State.Finished() {
			open[t.Branches[i].Participant]++
		}
	}
}
