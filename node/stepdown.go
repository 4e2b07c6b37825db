package node

import (
	"context"
	"sync"
	"time"

	"github.com/hashicorp/raft"
)

const (
	// stepDownTimeout bounds the attempt of a stopping node to transfer leadership.
	stepDownTimeout = 3 * time.Second
	// closingLeaderTimeout is how long a node that is being closed goes on leading when it could
	// not transfer leadership.
	closingLeaderTimeout = 3 * time.Second
)

// StepDown transfers leadership, if this node leads and another one can. Call it before a node is
// stopped, so that clients need not wait for an election. It returns when leadership was
// transferred, or that proved impossible, after three seconds at most.
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

// isolateAfterTimeout makes raft give up leadership, unless stop is called soon: closing a leader
// waits until all callers have their answers, and raft does not answer a caller whose entries do
// not reach the other nodes as long as these answer its heartbeats.
func (n *Node) isolateAfterTimeout() (stop func()) {
	var cutting sync.WaitGroup
	cutting.Add(1)
	timer := time.AfterFunc(closingLeaderTimeout, func() {
		defer cutting.Done()
		if n.raft.State() != raft.Leader {
			return
		}
		_ = n.closePeerServer()
		if t, ok := n.env.Transport.(raft.WithClose); ok {
			_ = t.Close()
		}
	})
	return func() {
		if !timer.Stop() {
			cutting.Wait()
		}
	}
}
