package node

import (
	"errors"
	"sync/atomic"
	"time"

	"github.com/hashicorp/raft"
)

// entryOverhead is what an entry takes in the log beside its data, about.
const entryOverhead = 64

const (
	// snapshotRetryPause is the pause after a snapshot that is still due.
	snapshotRetryPause = time.Second
	// snapshotWarningInterval is the pause between warnings of snapshots that fail.
	snapshotWarningInterval = time.Minute
)

func entryBytes(l *raft.Log) uint64 {
	return uint64(len(l.Data)) + uint64(len(l.Extensions)) + entryOverhead
}

// logMeter measures the log that this node stores, its own entries and those of others, in bytes: an entry may have
// a few of them, or millions.
type logMeter struct {
	stored     atomic.Uint64 // behind the newest snapshot of the start, and since
	snapshotAt atomic.Uint64 // a snapshot is due when so many are stored
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

// taken says that a snapshot of so many bytes covers what was stored before.
func (m *logMeter) taken(stored, least, size uint64) { m.snapshotAt.Store(stored + max(least, size)) }

// measureLog begins to measure the log that is there, and removes what an earlier life had
// no time to remove.
func (n *Node) measureLog() error {
	n.logMeter.wake = make(chan struct{}, 1)
	snaps, err := n.env.snaps.List()
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

// logTail goes back from the end of the log to the entry at low, or to where the entries have more than so many bytes. It
// gives the lowest entry that is within both, and the bytes from there on: more than that when it ends before low.
func (n *Node) logTail(low, most uint64) (from, size uint64, err error) {
	first, err := n.env.log.FirstIndex()
	if err != nil {
		return 0, 0, err
	}
	last, err := n.env.log.LastIndex()
	if err != nil {
		return 0, 0, err
	}
	low = max(low, first, 1)
	for from = last + 1; from > low && size <= most; {
		var l raft.Log
		switch err := n.env.log.GetLog(from-1, &l); {
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

// runSnapshots takes snapshots as the log grows. raft itself counts entries.
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

// Snapshot makes the state durable in one file and shortens the log. The
// coordinator goes on meanwhile.
func (n *Node) Snapshot() error {
	_, err := n.takeSnapshot()
	if errors.Is(err, raft.ErrNothingNewToSnapshot) {
		return nil // nothing was applied in this life: what is stored stays due
	}
	return err
}

// takeSnapshot has raft take a snapshot, for whatever purpose, and shortens the log: one that does not would leave
// log before it that no later life measures. The future is nil when no snapshot was taken.
func (n *Node) takeSnapshot() (raft.SnapshotFuture, error) {
	stored := n.logMeter.stored.Load()
	taken := n.raft.Snapshot()
	if err := taken.Error(); err != nil {
		return nil, err
	}
	snaps, err := n.env.snaps.List()
	if err != nil || len(snaps) == 0 {
		return taken, err
	}
	n.logMeter.taken(stored, n.conf.SnapshotBytes, uint64(snaps[0].Size))
	return taken, n.truncateLog(snaps)
}

// truncateLog removes the beginning of the log. What follows the snapshot before the newest stays, which is needed if the
// newest is damaged; and so do the last SnapshotBytes, for followers that lag. One that has removed what the leader, for
// want of an answer, sends again is sent a snapshot.
func (n *Node) truncateLog(snaps []*raft.SnapshotMeta) error {
	if len(snaps) < 2 {
		return nil
	}
	first, err := n.env.log.FirstIndex()
	if err != nil || first == 0 || first > snaps[1].Index {
		return err
	}
	from, _, err := n.logTail(first, n.conf.SnapshotBytes)
	if err != nil {
		return err
	}
	if to := min(snaps[1].Index, from-1); first <= to {
		return n.env.log.DeleteRange(first, to)
	}
	return nil
}
