package snapshots

import (
	"errors"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/hashicorp/raft"
)

const (
	// snapshotRetryPause is the pause after a snapshot when the next one is already due.
	snapshotRetryPause = time.Second
	// snapshotWarningInterval is the time between warnings about snapshots that fail.
	snapshotWarningInterval = time.Minute
)

// Scheduler takes the snapshots of one node, and truncates its log. It measures the log that the
// node stores, in bytes: its own entries and those of other leaders. An entry may have a few bytes,
// or millions.
type Scheduler struct {
	log    raft.LogStore
	store  raft.SnapshotStore
	least  uint64 // bytes of log after which a snapshot is taken, and that stay
	logger *slog.Logger
	raft   *raft.Raft

	stored     atomic.Uint64      // since the newest snapshot
	snapshotAt atomic.Uint64      // a snapshot is due when this many are stored
	wake       chan struct{}      // capacity 1
	loops      chan raft.ServerID // nodes that are sent the same snapshot again and again
}

// New measures the existing log, and removes what the node had no time to remove before it last
// stopped. least is after how many bytes of log a snapshot is taken, or after as many bytes as the
// last snapshot has, if that is more. Only [Scheduler.Count] and
// [Scheduler.RepeatedTo] may be called before [Scheduler.SetRaft].
func New(log raft.LogStore, store raft.SnapshotStore, least uint64, logger *slog.Logger) (*Scheduler, error) {
	s := &Scheduler{log: log, store: store, least: least, logger: logger, wake: make(chan struct{}, 1), loops: make(chan raft.ServerID, 1)}
	return s, s.measureLog()
}

// SetRaft tells which raft takes the snapshots.
func (s *Scheduler) SetRaft(r *raft.Raft) { s.raft = r }

// Count counts entries that are being stored.
func (s *Scheduler) Count(logs []*raft.Log) {
	var size uint64
	for _, l := range logs {
		size += entryBytes(l)
	}
	if s.stored.Add(size) >= s.snapshotAt.Load() {
		select {
		case s.wake <- struct{}{}:
		default:
		}
	}
}

// Due reports whether the log has grown so much that a snapshot is due.
func (s *Scheduler) Due() bool { return s.stored.Load() >= s.snapshotAt.Load() }

// taken records that a snapshot of size bytes covers what was stored before.
func (s *Scheduler) taken(stored, size uint64) { s.snapshotAt.Store(stored + max(s.least, size)) }

// Run takes snapshots as the log grows in bytes, until stop is closed; raft itself would count entries.
func (s *Scheduler) Run(stop <-chan struct{}) {
	for {
		var warned time.Time // last, of snapshots that fail one after the other
		for s.Due() {
			err := s.Snapshot()
			if err == nil && !s.Due() {
				break // otherwise the entry that woke us was stored, and is not applied yet
			}
			if now := time.Now(); err != nil && (warned.IsZero() || now.Sub(warned) >= snapshotWarningInterval) {
				warned = now
				s.logger.Warn("snapshot failed; the log stays as it is", "error", err)
			}
			select {
			case <-time.After(snapshotRetryPause):
			case <-stop:
				return
			}
		}
		select {
		case <-s.wake:
		case <-stop:
			return
		}
	}
}

// Snapshot takes a snapshot, unless nothing was applied since the start, and shortens the log.
func (s *Scheduler) Snapshot() error {
	_, err := s.Take()
	if errors.Is(err, raft.ErrNothingNewToSnapshot) {
		return nil // nothing was applied since the start: what is stored stays due
	}
	return err
}

// Take makes raft take a snapshot, for any purpose, and shortens the log: otherwise a part
// of the log would remain before the snapshot that is not measured after a restart. The future is
// nil when no snapshot was taken.
func (s *Scheduler) Take() (raft.SnapshotFuture, error) {
	stored := s.stored.Load()
	taken := s.raft.Snapshot()
	if err := taken.Error(); err != nil {
		return nil, err
	}
	snaps, err := s.store.List()
	if err != nil || len(snaps) == 0 {
		return taken, err
	}
	s.taken(stored, uint64(snaps[0].Size))
	return taken, s.truncateLog(snaps)
}
