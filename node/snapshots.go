package node

import (
	"errors"
	"sync/atomic"
	"time"

	"github.com/hashicorp/raft"
)

// entryOverhead is approximately what an entry takes in the log beside its data.
const entryOverhead = 64

const (
	// snapshotRetryPause is the pause after a snapshot when the next one is already due.
	snapshotRetryPause = time.Second
	// snapshotWarningInterval is the time between warnings about snapshots that fail.
	snapshotWarningInterval = time.Minute
)

func entryBytes(l *raft.Log) uint64 {
	return uint64(len(l.Data)) + uint64(len(l.Extensions)) + entryOverhead
}

// logMeter measures the log that this node stores, in bytes: its own entries and those of other
// leaders. An entry may have a few bytes, or millions.
type logMeter struct {
	stored     atomic.Uint64 // since the newest snapshot
	snapshotAt atomic.Uint64 // a snapshot is due when this many are stored
	wake       chan struct{} // capacity 1
}

// add counts entries that are being stored.
func (m *logMeter) add(logs []*raft.Log) {
	var size uint64
	for _, l := range logs {
		size += entryBytes(l)
	}
	if m.stored.Add(size) >= m.snapshotAt.Load() {
		select {
		case m.wake <- struct{}{}:
		default:
		}
	}
}

// taken records that a snapshot of size bytes covers what was stored before.
func (m *logMeter) taken(stored, least, size uint64) { m.snapshotAt.Store(stored + max(least, size)) }

// measureLog measures the existing log, and removes what the node had no time to remove before it
// last stopped.
func (n *Node) measureLog() error {
	n.logMeter.wake = make(chan struct{}, 1)
	snaps, err := n.env.Snapshots.List()
	if err != nil {
		return err
	}
	var newest raft.SnapshotMeta
	if len(snaps) > 0 {
		newest = *snaps[0]
	}
	_, stored, err := n.logTail(newest.Index+1, max(n.conf.SnapshotBytes, uint64(newest.Size)))
	n.logMeter.taken(0, n.conf.SnapshotBytes, uint64(newest.Size))
	n.logMeter.stored.Store(stored)
	if err != nil {
		return err
	}
	return n.truncateLog(snaps)
}

// logTail goes back from the end of the log to the entry at low, or to where the entries exceed
// most bytes. It returns the lowest entry within both limits, and the bytes from there on: more
// than most when it ends before low.
func (n *Node) logTail(low, most uint64) (from, size uint64, err error) {
	first, err := n.env.Log.FirstIndex()
	if err != nil {
		return 0, 0, err
	}
	last, err := n.env.Log.LastIndex()
	if err != nil {
		return 0, 0, err
	}
	low = max(low, first, 1)
	for from = last + 1; from > low && size <= most; {
		var l raft.Log
		switch err := n.env.Log.GetLog(from-1, &l); {
		case errors.Is(err, raft.ErrLogNotFound): // a snapshot was installed
			return from, size, nil
		case err != nil:
			return 0, 0, err
		}
		if size += entryBytes(&l); size <= most {
			from--
		}
	}
	return from, size, nil
}

// runSnapshots takes snapshots as the log grows in bytes; raft itself would count entries.
func (n *Node) runSnapshots() {
	for {
		var warned time.Time // last, of snapshots that fail one after the other
		for n.logMeter.stored.Load() >= n.logMeter.snapshotAt.Load() {
			err := n.Snapshot()
			if err == nil && n.logMeter.stored.Load() < n.logMeter.snapshotAt.Load() {
				break // otherwise the entry that woke us was stored, and is not applied yet
			}
			if now := time.Now(); err != nil && (warned.IsZero() || now.Sub(warned) >= snapshotWarningInterval) {
				warned = now
				n.logger.Warn("snapshot failed; the log stays as it is", "error", err)
			}
			select {
			case <-time.After(snapshotRetryPause):
			case <-n.closing:
				return
			}
		}
		select {
		case <-n.logMeter.wake:
		case <-n.closing:
			return
		}
	}
}

// Snapshot makes the state durable in one file and shortens the log. The coordinator continues
// meanwhile.
func (n *Node) Snapshot() error {
	_, err := n.takeSnapshot()
	if errors.Is(err, raft.ErrNothingNewToSnapshot) {
		return nil // nothing was applied since the start: what is stored stays due
	}
	return err
}

// takeSnapshot makes raft take a snapshot, for any purpose, and shortens the log: otherwise a part
// of the log would remain before the snapshot that is not measured after a restart. The future is
// nil when no snapshot was taken.
func (n *Node) takeSnapshot() (raft.SnapshotFuture, error) {
	stored := n.logMeter.stored.Load()
	taken := n.raft.Snapshot()
	if err := taken.Error(); err != nil {
		return nil, err
	}
	snaps, err := n.env.Snapshots.List()
	if err != nil || len(snaps) == 0 {
		return taken, err
	}
	n.logMeter.taken(stored, n.conf.SnapshotBytes, uint64(snaps[0].Size))
	return taken, n.truncateLog(snaps)
}

// truncateLog removes the beginning of the log. What follows the second newest snapshot stays,
// since it is needed if the newest is damaged; and so do the last SnapshotBytes, for followers that
// lag. A follower that has removed entries which the leader, for lack of an answer, sends again
// receives a snapshot.
func (n *Node) truncateLog(snaps []*raft.SnapshotMeta) error {
	if len(snaps) < 2 {
		return nil
	}
	first, err := n.env.Log.FirstIndex()
	if err != nil || first == 0 || first > snaps[1].Index {
		return err
	}
	from, _, err := n.logTail(first, n.conf.SnapshotBytes)
	if err != nil {
		return err
	}
	if to := min(snaps[1].Index, from-1); first <= to {
		return n.env.Log.DeleteRange(first, to)
	}
	return nil
}
