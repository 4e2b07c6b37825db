package snapshots

import (
	"time"

	"github.com/hashicorp/raft"
)

// loopBreakInterval is the least time between two snapshots that are taken to break a loop.
const loopBreakInterval = time.Second

// RepeatedTo receives the id of a node to which raft sends the same snapshot for ever, as
// raftguard.Transport finds (node/raftguard/repeated_snapshot.go). It has place for one.
func (s *Scheduler) RepeatedTo() chan<- raft.ServerID { return s.loops }

// BreakLoops takes a new snapshot for each node that is reported by [Scheduler.RepeatedTo], until stop is
// closed. requestTick has an entry written: raft takes no snapshot when nothing is new.
func (s *Scheduler) BreakLoops(stop <-chan struct{}, requestTick func()) {
	for {
		select {
		case id := <-s.loops:
			s.logger.Warn("a node is sent the same snapshot again and again: taking a new one", "node", id)
			requestTick()
			timer := time.NewTimer(loopBreakInterval)
			select {
			case <-timer.C:
			case <-stop:
				timer.Stop()
				return
			}
			if err := s.Snapshot(); err != nil {
				s.logger.Warn("snapshot failed", "error", err)
			}
		case <-stop:
			return
		}
	}
}
