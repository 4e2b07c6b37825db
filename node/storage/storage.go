// Package storage is the data directory of a node: the log, the snapshots on which it builds, and
// the node's id. What does not form a complete state is refused and left as it is.
package storage

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/raft"
	"github.com/oklog/ulid/v2"

	"github.com/txmgr/txmgr/internal/simenv"
	"github.com/txmgr/txmgr/raftfsm/logstore"
)

// ErrDamaged: the content of a data directory does not form a complete state any more.
// Nothing was changed. Restore a copy of the whole directory.
var ErrDamaged = errors.New("data directory is damaged")

// Storage is the node's data on disk: the log, and the snapshots on which the log
// builds.
type Storage struct {
	Log       logFile
	Snapshots raft.SnapshotStore
	ID        raft.ServerID
}

// logFile is the log with raft's stable store.
type logFile interface {
	raft.LogStore
	raft.StableStore
	Stats() (logstore.Stats, error)
	Close() error
}

// simLog is the log of the simulation.
type simLog struct{ simenv.Log }

func (simLog) Stats() (logstore.Stats, error) { return logstore.Stats{}, nil }
func (simLog) Close() error                   { return nil }

// The keys under which raft stores its current term, and that of its last vote.
var (
	CurrentTermKey  = []byte("CurrentTerm")
	LastVoteTermKey = []byte("LastVoteTerm")
)

// SnapshotsKept is how many snapshots a directory keeps.
const SnapshotsKept = 2

// Simulated is the data of a node in the simulation.
func Simulated(env *simenv.Env) *Storage {
	return &Storage{Log: simLog{env.Log}, Snapshots: env.Snapshots, ID: env.ID}
}

// Open opens or creates the data directory. Log and snapshots are checked against each
// other before raft sees them: raft would go back to a snapshot older than the beginning of the
// log, and panic. snapshotBytes is how much log there may be before a snapshot is due.
func Open(dir string, snapshotBytes uint64, onFailure func(error), logger hclog.Logger) (*Storage, error) {
	s, err := openFiles(dir, snapshotBytes, onFailure, logger)
	if err != nil {
		return nil, fmt.Errorf("data directory %s: %w", dir, err)
	}
	if err = s.verifyConsistency(dir); err == nil {
		err = s.verifyTerm()
	}
	if err == nil {
		s.ID, err = loadID(s.Log)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("data directory %s: %w", dir, err), s.Log.Close())
	}
	return s, nil
}

// Create opens a directory that holds nothing yet, for a state that is written to it without raft.
func Create(dir string, onFailure func(error), logger hclog.Logger) (*Storage, error) {
	s, err := openFiles(dir, 0, onFailure, logger)
	if err != nil {
		return nil, err
	}
	if s.ID, err = loadID(s.Log); err != nil {
		return nil, errors.Join(err, s.Log.Close())
	}
	return s, nil
}

func openFiles(dir string, snapshotBytes uint64, onFailure func(error), logger hclog.Logger) (*Storage, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	file := filepath.Join(dir, "log.db")
	existing, err := snapshotNames(dir)
	if err != nil {
		return nil, err
	}
	if _, err := os.Stat(file); errors.Is(err, fs.ErrNotExist) && len(existing) > 0 {
		return nil, fmt.Errorf("%w: %s is missing, though there is the snapshot %s: a new log would begin a new history", ErrDamaged, file, existing[0])
	}
	files, err := raft.NewFileSnapshotStoreWithLogger(dir, SnapshotsKept, logger)
	if err != nil {
		return nil, fmt.Errorf("snapshots: %w", err)
	}
	snaps := snapshotStore{files, dir}
	log, err := logstore.Open(file, logstore.Options{OnFailure: onFailure, Snapshots: snaps, SegmentBytes: segmentBytes(snapshotBytes)})
	if err != nil {
		return nil, err
	}
	return &Storage{Log: log, Snapshots: snaps}, nil
}

// segmentBytes is the size of a file of the log: files are released as a whole, so it bounds what is kept too long.
func segmentBytes(snapshotBytes uint64) int64 {
	const least, most = 64 << 10, 16 << 20
	return int64(min(max(snapshotBytes/4, least), most))
}

// snapshotNames lists the directories of snapshots, complete and damaged ones.
func snapshotNames(dir string) (names []string, err error) {
	entries, err := os.ReadDir(filepath.Join(dir, "snapshots"))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	for _, e := range entries {
		if e.IsDir() && !strings.HasSuffix(e.Name(), ".tmp") {
			names = append(names, e.Name())
		}
	}
	return names, nil
}

// verifyConsistency verifies that the newest readable snapshot and the log are contiguous.
func (s *Storage) verifyConsistency(dir string) error {
	first, err := s.Log.FirstIndex()
	if err != nil {
		return err
	}
	listed, err := s.Snapshots.List()
	if err != nil {
		return fmt.Errorf("listing the snapshots: %w", err)
	}
	existing, err := snapshotNames(dir)
	if err != nil {
		return err
	}
	var reached uint64 // by the newest snapshot that can be read
	var unread []error
	for _, meta := range listed {
		_, r, err := s.Snapshots.Open(meta.ID) // reads all of it, and verifies the checksum
		if err != nil {
			unread = append(unread, fmt.Errorf("snapshot %s: %w", filepath.Join(dir, "snapshots", meta.ID), err))
			continue
		}
		reached = meta.Index
		if err := r.Close(); err != nil {
			return err
		}
		break
	}
	if first <= reached+1 && (reached > 0 || len(existing) == 0) {
		return nil
	}
	if len(unread) == 0 {
		unread = append(unread, fmt.Errorf("there are %d snapshots, none of which can be read", len(existing)))
	}
	return fmt.Errorf("%w: the log begins at entry %d, and the snapshots reach to entry %d: %w", ErrDamaged, first, reached, errors.Join(unread...))
}

// verifyTerm verifies that raft's term is not older than the last entry's: it is stored before an entry of that term is.
// Otherwise the file with term and vote is from an earlier time, and the node might vote again where it has voted.
func (s *Storage) verifyTerm() error {
	index, err := s.Log.LastIndex()
	if err != nil || index == 0 {
		return err
	}
	var last raft.Log
	if err := s.Log.GetLog(index, &last); err != nil {
		return err
	}
	term, err := s.Log.GetUint64(CurrentTermKey)
	if err != nil && !errors.Is(err, logstore.ErrKeyNotFound) {
		return err
	}
	if term < last.Term {
		return fmt.Errorf("%w: log.db is of term %d, and the last entry, %d, of term %d: it is not of the same time as the segments", ErrDamaged, term, index, last.Term)
	}
	return nil
}

var nodeIDKey = []byte("txmgr/node-id")

// loadID returns the id of this replica. It is created with the data directory and never used
// for another one.
func loadID(log raft.StableStore) (raft.ServerID, error) {
	b, err := log.Get(nodeIDKey)
	switch {
	case err == nil && len(b) > 0:
		return raft.ServerID(b), nil
	case err != nil && !errors.Is(err, logstore.ErrKeyNotFound):
		return "", fmt.Errorf("reading the node's name: %w", err)
	}
	id := "n_" + strings.ToLower(ulid.Make().String())
	if err := log.Set(nodeIDKey, []byte(id)); err != nil {
		return "", fmt.Errorf("naming the node: %w", err)
	}
	return raft.ServerID(id), nil
}
