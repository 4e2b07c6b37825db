package node

import (
	"sync"
	"time"

	"github.com/hashicorp/raft"
)

// closingLeaderTimeout is how long a node that is being closed goes on leading when it could not
// transfer leadership.
const closingLeaderTimeout = 3 * time.Second

// StepDown transfers leadership, if this node leads and another one can. Call it before a node is
// stopped, so that clients need not wait for an election. It returns when leadership was
// transferred, or that proved impossible, after three seconds at most.
func (n *Node) StepDown() {
	if n.conf.Cluster != nil && n.leading() {
		n.cluster.StepDown()
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
		_ = n.cluster.Close()
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
