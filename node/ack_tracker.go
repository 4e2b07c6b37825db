package node

import (
	"errors"
	"sync"
	"time"

	"github.com/hashicorp/raft"

	"github.com/txmgr/txmgr/node/membership"
)

// ackTracker records, for every other node, the latest request that the node acknowledged with
// this node as leader, by the number of the round that was current when the request was sent.
// raft's own VerifyLeader counts any acknowledgement that arrives after its call, also one to a
// request that was sent long before: a leader that was suspended finds it in its socket when it
// resumes, and would wrongly take itself for the leader (docs/decisions/0020).
type ackTracker struct {
	mu     sync.Mutex
	round  uint64                         // guarded by mu: the current one
	latest map[raft.ServerID]heartbeatAck // guarded by mu
}

type heartbeatAck struct{ term, round uint64 }

// beginRound begins a round and returns its number.
func (c *ackTracker) beginRound() uint64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.round++
	return c.round
}

// currentRound is the round to record for the answer to a request that is sent now.
func (c *ackTracker) currentRound() uint64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.round
}

func (c *ackTracker) record(id raft.ServerID, term, round uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.latest == nil {
		c.latest = make(map[raft.ServerID]heartbeatAck)
	}
	if k := c.latest[id]; term > k.term || term == k.term && round > k.round {
		c.latest[id] = heartbeatAck{term, round}
	}
}

// quorum reports whether most voters, counting self, have acknowledged requests of the term
// that were sent in this round or later.
func (c *ackTracker) quorum(servers []raft.Server, self raft.ServerID, term, round uint64) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	voters, yes := 0, 0
	for _, s := range servers {
		if s.Suffrage != raft.Voter {
			continue
		}
		voters++
		if k := c.latest[s.ID]; s.ID == self || k.term == term && k.round >= round {
			yes++
		}
	}
	return yes > voters/2
}

// verifyRetryPause is the pause between two calls of raft's VerifyLeader, after as many calls
// as there may be nodes: raft counts a learner's acknowledgement as a voter's, and the learner
// may be the fastest by far.
const verifyRetryPause = time.Millisecond

// verifyLeader returns nil when a quorum has acknowledged, to requests sent after the call,
// that this node leads. It retries until then, or until raft gives up because it has had no
// contact with a quorum for a while.
func (n *Node) verifyLeader() error {
	round, term := n.acks.beginRound(), n.term.Load()
	for tries := 1; ; tries++ {
		if err := n.raft.VerifyLeader().Error(); err != nil {
			return err
		}
		switch {
		case n.acks.quorum(n.cluster.Servers(), n.env.ID, term, round):
			return nil
		case n.raft.CurrentTerm() != term:
			return errors.New("another term has begun")
		case tries > membership.MaxNodes:
			<-time.After(verifyRetryPause)
		}
	}
}
