package node

import (
	"errors"
	"sync"
	"time"

	"github.com/hashicorp/raft"
)

// ackTracker remembers, for every other node, the latest request to which it answered that
// this node leads, by the number of the question that was the newest when the request was
// sent. raft's own VerifyLeader takes any such answer that
// arrives after the question, also one to a request that was sent long before: a leader
// that was halted finds it in its socket when it wakes up, and would take itself for
// the leader still.
type ackTracker struct {
	mu     sync.Mutex
	round  uint64                         // guarded by mu: the newest one
	latest map[raft.ServerID]heartbeatAck // guarded by mu
}

type heartbeatAck struct{ term, round uint64 }

// beginRound begins a question and gives its number.
func (c *ackTracker) beginRound() uint64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.round++
	return c.round
}

// currentRound is the number to note an answer with whose request is being sent now.
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

// quorum reports whether most voters, self among them, have answered to requests of
// the term that were sent after the question was asked.
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

// verifyRetryPause is the pause between two questions, when every node may have answered the first
// ones to no avail: raft takes a learner's yes for a voter's, and the learner may be the
// quickest by far.
const verifyRetryPause = time.Millisecond

// verifyLeader returns nil when a quorum has said, asked after the call, that this node
// leads. It asks until then, or until raft gives up, which it does when a quorum has said
// nothing for a while.
func (n *Node) verifyLeader() error {
	round, term := n.acks.beginRound(), n.term.Load()
	for tries := 1; ; tries++ {
		if err := n.raft.VerifyLeader().Error(); err != nil {
			return err
		}
		switch {
		case n.acks.quorum(n.servers(), n.env.id, term, round):
			return nil
		case n.raft.CurrentTerm() != term:
			return errors.New("another term has begun")
		case tries > maxNodes:
			<-time.After(verifyRetryPause)
		}
	}
}
