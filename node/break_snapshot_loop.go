package node

import "time"

// loopBreakInterval is the least time between two snapshots that are taken to break a loop.
const loopBreakInterval = time.Second

// breakSnapshotLoops takes a new snapshot whenever raft sends a node the same one for ever, as
// raftguard.Transport has found (node/raftguard/repeated_snapshot.go).
func (n *Node) breakSnapshotLoops() {
	for {
		select {
		case id := <-n.snapshotLoops:
			n.logger.Warn("a node is sent the same snapshot again and again: taking a new one", "node", id)
			n.proposals.RequestTick() // raft takes no snapshot when nothing is new
			timer := time.NewTimer(loopBreakInterval)
			select {
			case <-timer.C:
			case <-n.closing:
				timer.Stop()
				return
			}
			if err := n.Snapshot(); err != nil {
				n.logger.Warn("snapshot failed", "error", err)
			}
		case <-n.closing:
			return
		}
	}
}
