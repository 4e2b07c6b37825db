package node

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"

	"github.com/hashicorp/raft"

	"github.com/txmgr/txmgr/raftfsm"
	"github.com/txmgr/txmgr/txn"
	"github.com/txmgr/txmgr/txn/admin"
)

// The keys under which raft stores its current term, and that of its last vote.
var (
	keyCurrentTerm  = []byte("CurrentTerm")
	keyLastVoteTerm = []byte("LastVoteTerm")
)

// RestoreBackup writes the data directory of a new node from a backup; the node is the only one of
// its cluster. [Open] starts it; the cluster has the next incarnation, and its recovery is paused
// until [Node.ResumeRecovery]. Other nodes join it with empty data directories of their own.
//
// dir must be empty or missing. After an error it is as it was before.
//
// [txn.ErrConflict]: dir is not empty. [ErrBadBackup]: r is no backup, or damaged.
// [txn.ErrInvalid] alone: it was written by a newer release.
func RestoreBackup(ctx context.Context, r io.Reader, dir string) (admin.Backup, error) {
	b, err := restoreBackup(ctx, r, dir)
	if err != nil {
		return admin.Backup{}, fmt.Errorf("restoring a backup to %s: %w", dir, err)
	}
	return b, nil
}

func restoreBackup(ctx context.Context, r io.Reader, dir string) (b admin.Backup, err error) {
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

// prepareEmptyDir makes sure that the directory exists and is empty; undo removes what was
// created for that.
func prepareEmptyDir(dir string) (undo func() error, err error) {
	found, err := os.ReadDir(dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	for _, e := range found {
		if e.Name() != "lost+found" { // dir is a file system of its own
			return nil, fmt.Errorf("%w: the directory has to be empty or missing, and there is %s", txn.ErrConflict, e.Name())
		}
	}
	made := "" // the uppermost directory that is missing
	for d := filepath.Clean(dir); ; d = filepath.Dir(d) {
		if _, err := os.Stat(d); !errors.Is(err, fs.ErrNotExist) {
			break
		}
		made = d
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	return func() error {
		if made == "" {
			return nil
		}
		return os.RemoveAll(made)
	}, nil
}

// writeRestored writes log and snapshot to an empty directory.
func writeRestored(ctx context.Context, r io.Reader, dir string) (b admin.Backup, err error) {
	in, err := openBackup(contextReader{ctx, r})
	if err != nil {
		return b, err
	}
	s, err := openFiles(dir, func(error) {}, slog.New(slog.DiscardHandler))
	if err != nil {
		return b, err
	}
	defer func() { err = errors.Join(err, s.log.Close()) }()
	if s.id, err = loadNodeID(s.log); err != nil {
		return b, err
	}
	if err := s.log.SetUint64(keyCurrentTerm, in.header.Term); err != nil {
		return b, err
	}
	return in.restoreTo(s)
}

// restoreTo writes the state as a snapshot of the single node, and reads the rest of the
// backup before the snapshot becomes valid.
func (b *backupReader) restoreTo(s *storage) (admin.Backup, error) {
	// No other node can reach it yet; it reports its address itself.
	alone := raft.Configuration{Servers: []raft.Server{{ID: s.id, Address: raft.ServerAddress(s.id)}}}
	_, transport := raft.NewInmemTransport("") // translates the address for the snapshot's description
	// As in raft's own recovery, the configuration is given as that of entry 1.
	sink, err := s.snaps.Create(raft.SnapshotVersionMax, b.header.Index, b.header.Term, alone, 1, transport)
	if err != nil {
		return admin.Backup{}, err
	}
	if err := raftfsm.CopyAsNewIncarnation(sink, b.snapshot); err != nil {
		return admin.Backup{}, errors.Join(backupError(err), sink.Cancel())
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
	s, err := openStorage(dir, func(error) {}, slog.New(slog.DiscardHandler))
	if err != nil {
		return err
	}
	defer s.log.Close() // nothing was written
	listed, err := s.snaps.List()
	if err != nil || len(listed) != 1 {
		return fmt.Errorf("%d snapshots: %w", len(listed), err)
	}
	_, state, err := s.snaps.Open(listed[0].ID)
	if err != nil {
		return err
	}
	return raftfsm.New(raftfsm.Config{}).Restore(state)
}

// moveIntoPlace moves the restored files to their place. The log comes last: a node without it
// refuses to start where there is a snapshot.
func moveIntoPlace(staging, dir string) (err error) {
	snapshots, log := filepath.Join(dir, "snapshots"), filepath.Join(dir, "log.db")
	for _, name := range []string{snapshots, log} {
		if _, err := os.Lstat(name); !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("%w: %s was made meanwhile (%w)", txn.ErrConflict, name, err)
		}
	}
	if err := os.Rename(filepath.Join(staging, "snapshots"), snapshots); err != nil {
		return err
	}
	err = syncDirectory(dir)
	if err == nil {
		err = os.Rename(filepath.Join(staging, "log.db"), log)
	}
	if err != nil {
		return errors.Join(err, os.RemoveAll(snapshots))
	}
	return errors.Join(syncDirectory(dir), syncDirectory(filepath.Dir(filepath.Clean(dir))))
}

// syncDirectory makes the names in a directory durable.
func syncDirectory(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}
