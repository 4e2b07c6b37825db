package backup

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/raft"

	"github.com/txmgr/txmgr/node/storage"
	"github.com/txmgr/txmgr/raftfsm"
	"github.com/txmgr/txmgr/txn/admin"
)

// Restore writes the data directory of a new node from a backup; the node is the only one of
// its cluster. node.Open starts it; the cluster has the next incarnation, and its recovery is paused
// until ResumeRecovery. Other nodes join it with empty data directories of their own.
//
// dir must be empty or missing. After an error it is as it was before.
//
// [txn.ErrConflict]: dir is not empty. [ErrDamaged]: r is no backup, or damaged.
// [txn.ErrInvalid] alone: it was written by a newer release, or is of another raft group than 0.
func Restore(ctx context.Context, r io.Reader, dir string) (admin.Backup, error) {
	b, err := restore(ctx, r, dir)
	if err != nil {
		return admin.Backup{}, fmt.Errorf("restoring a backup to %s: %w", dir, err)
	}
	return b, nil
}

func restore(ctx context.Context, r io.Reader, dir string) (b admin.Backup, err error) {
	undo, err := prepareEmptyDir(dir)
	if err != nil {
		return b, err
	}
	staging := filepath.Join(dir, "restoring")
	defer func() {
		err = errors.Join(err, os.RemoveAll(staging))
		if err != nil {
			err = errors.Join(err, undo())
		}
	}()
	if err := os.Mkdir(staging, 0o700); err != nil {
		return b, err
	}
	if b, err = writeRestored(ctx, r, staging); err != nil {
		return b, err
	}
	if err := verifyRestored(staging); err != nil {
		return b, fmt.Errorf("the state in the backup cannot be used: %w", err)
	}
	return b, moveIntoPlace(staging, dir)
}

// writeRestored writes log and snapshot to an empty directory.
func writeRestored(ctx context.Context, r io.Reader, dir string) (b admin.Backup, err error) {
	in, err := openReader(contextReader{ctx, r})
	if err != nil {
		return b, err
	}
	s, err := storage.Create(dir, func(error) {}, hclog.NewNullLogger())
	if err != nil {
		return b, err
	}
	defer func() { err = errors.Join(err, s.Log.Close()) }()
	if err := s.Log.SetUint64(storage.CurrentTermKey, in.header.Term); err != nil {
		return b, err
	}
	return in.restoreTo(s)
}

// restoreTo writes the state as a snapshot of the single node, and reads the rest of the
// backup before the snapshot becomes valid.
func (b *reader) restoreTo(s *storage.Storage) (admin.Backup, error) {
	// No other node can reach it yet; it reports its address itself.
	alone := raft.Configuration{Servers: []raft.Server{{ID: s.ID, Address: raft.ServerAddress(s.ID)}}}
	_, transport := raft.NewInmemTransport("") // translates the address for the snapshot's description
	// As in raft's own recovery, the configuration is given as that of entry 1.
	sink, err := s.Snapshots.Create(raft.SnapshotVersionMax, b.header.Index, b.header.Term, alone, 1, transport)
	if err != nil {
		return admin.Backup{}, err
	}
	if err := raftfsm.CopyAsNewIncarnation(sink, b.snapshot); err != nil {
		return admin.Backup{}, errors.Join(readError(err), sink.Cancel())
	}
	described, err := b.finish()
	if err != nil {
		return admin.Backup{}, errors.Join(err, sink.Cancel())
	}
	return described, sink.Close()
}

// verifyRestored does what a node does when it starts, up to the point where it begins to
// write.
func verifyRestored(dir string) error {
	s, err := storage.Open(dir, 0, func(error) {}, hclog.NewNullLogger())
	if err != nil {
		return err
	}
	defer s.Log.Close() // nothing was written
	listed, err := s.Snapshots.List()
	if err != nil || len(listed) != 1 {
		return fmt.Errorf("%d snapshots: %w", len(listed), err)
	}
	_, state, err := s.Snapshots.Open(listed[0].ID)
	if err != nil {
		return err
	}
	return raftfsm.New(raftfsm.Config{}).Restore(state)
}
