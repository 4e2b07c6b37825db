package node

import (
	"errors"
	"time"

	"github.com/hashicorp/raft"
)

// snapshotMeter says when enough log was written since the last snapshot.
type snapshotMeter struct {
	logged uint64 // batcher.bytes at the last snapshot
	size   uint64 // of the last snapshot
}

func (s snapshotMeter) due(logged, least uint64) bool {
	return logged-s.logged >= max(least, s.size)
}

// snapshotByBytes bounds what a restart has to replay. raft itself counts
// entries, of which one may be a few bytes or a megabyte.
func (n *Node) snapshotByBytes() {
	ticker := time.NewTicker(time.Second)
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C:
		case <-n.closing:
			return
		}
		logged := n.batcher.bytes.Load()
		n.mu.Lock()
		due := n.ownSnap.due(logged, n.conf.SnapshotBytes)
		n.mu.Unlock()
		if due {
			if err := n.Snapshot(); err != nil {
				n.logger.Warn("snapshot failed; the log stays as it is", "error", err)
			}
		}
	}
}

// Snapshot makes the state durable in one file and shortens the log. The
// coordinator goes on meanwhile.
func (n *Node) Snapshot() error {
	logged := n.batcher.bytes.Load()
	f := n.raft.Snapshot()
	if err := f.Error(); err != nil && !errors.Is(err, raft.ErrNothingNewToSnapshot) {
		return err
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.ownSnap.logged = logged
	if snaps, err := n.storage.snaps.List(); err == nil && len(snaps) > 0 {
		n.ownSnap.size = uint64(snaps[0].Size)
	}
	return nil
}
