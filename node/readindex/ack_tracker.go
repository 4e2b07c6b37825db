package readindex

import (
	"errors"
	"sync"
	"time"

	"github.com/hashicorp/raft"
)

// AckTracker records, for every other node, the latest request that the node acknowledged with
// this node as leader, by the number of the round that was current when the request was sent.
// raft's own VerifyLeader counts any acknowledgement that arrives after its call, also one to a
// request that was sent long before: a leader that was suspended finds it in its socket when it
// resumes, and would wrongly take itself for the leader (docs/decisions/0020).
type AckTracker struct {
	mu     sync.Mutex
	round  uint64                // guarded by mu: the current one
	latest map[raft.ServerID]ack // guarded by mu
}

type ack struct{ term, round uint64 }

// beginRound begins a round and returns its number.
func (c *AckTracker) beginRound() uint64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.round++
	return c.round
}

// CurrentRound returns the round to record for the answer to a request that is sent now.
func (c *AckTracker) CurrentRound() uint64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.round
}

// Record records that a node has acknowledged, in this term, a request that was sent in this round.
func (c *AckTracker) Record(id raft.ServerID, term, round uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.latest == nil {
		c.latest = make(map[raft.ServerID]ack)
	}
	if k := c.latest[id]; term > k.term || term == k.term && round > k.round {
		c.latest[id] = ack{term, round}
	}
}

// quorum reports whether most voters, counting self, have acknowledged requests of the term
// that were sent in this round or later.
func (c *AckTracker) quorum(servers []raft.Server, self raft.ServerID, term, round uint64) bool {
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

const (
	// verifyRetryPause is the pause between two calls of raft's VerifyLeader, after maxQuickTries:
	// raft counts a learner's acknowledgement as a voter's, and the learner may be the fastest by
	// far.
	verifyRetryPause = time.Millisecond
	// maxQuickTries is how many nodes a cluster may have.
	maxQuickTries = 9
)

// VerifyLeader returns nil when a quorum has acknowledged, to requests sent after the call, that
// self leads in the term. It retries until then, or until raft gives up because it has had no
// contact with a quorum for a while.
func (c *AckTracker) VerifyLeader(r *raft.Raft, self raft.ServerID, term uint64) error {
	round := c.beginRound()
	for tries := 1; ; tries++ {
		if err := r.VerifyLeader().Error(); err != nil {
			return err
		}
		switch {
		case c.quorum(servers(r), self, term, round):
			return nil
		case r.CurrentTerm() != term:
			return errors.New("another term has begun")
		case tries > maxQuickTries:
			<-time.After(verifyRetryPause)
		}
	}
}

func servers(r *raft.Raft) []raft.Server {
	f := r.GetConfiguration()
	if f.Error() != nil {
		return nil
	}
	return f.Configuration().Servers
}
