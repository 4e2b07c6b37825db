package node

import (
	"context"
	"sync"
	"time"

	"github.com/hashicorp/raft"
)

const (
	// stepDownTimeout bounds what a node that is to stop does to have another one lead.
	stepDownTimeout = 3 * time.Second
	// closingLeaderTimeout is how long a node that is being closed goes on leading when it could hand leadership to nobody.
	closingLeaderTimeout = 3 * time.Second
)

// StepDown hands leadership over, if this node leads and another one can: whoever is
// about to stop a node calls it first, so that nobody has to wait for an election. It
// returns when it is done, or has proved impossible, after three seconds at most.
func (n *Node) StepDown() {
	if n.peerServer == nil || !n.leading.Load() || n.countVoters() < 2 {
		return
	}
	if m, ok := n.transferTarget(); ok {
		ctx, cancel := context.WithTimeout(context.Background(), stepDownTimeout)
		defer cancel()
		if err := n.transferTo(ctx, m); err != nil {
			n.logger.Warn("cannot hand leadership over: the others will elect a leader", "error", err)
		}
	}
}

// isolateAfterTimeout has raft lay leadership down, unless stop is called soon: whoever closes a leader waits until all have their
// answers, and raft answers nobody whose entries do not reach the other nodes as long as these answer its heartbeats.
func (n *Node) isolateAfterTimeout() (stop func()) {
	var cutting sync.WaitGroup
	cutting.Add(1)
	timer := time.AfterFunc(closingLeaderTimeout, func() {
		defer cutting.Done()
		if n.raft.State() != raft.Leader {
			return
		}
		_ = n.closePeerServer()
		if t, ok := n.env.transport.(raft.WithClose); ok {
			_ = t.Close()
		}
	})
	return func() {
		if !timer.Stop() {
			cutting.Wait()
		}
	}
}
