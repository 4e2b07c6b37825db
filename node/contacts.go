package node

import (
	"errors"
	"sync"
	"time"

	"github.com/hashicorp/raft"
)

// contacts remembers, for every other node, the latest request to which it answered that
// this node leads, by the number of the question that was the newest when the request was
// sent. raft's own VerifyLeader takes any such answer that
// arrives after the question, also one to a request that was sent long before: a leader
// that was halted finds it in its socket when it wakes up, and would take itself for
// the leader still.
type contacts struct {
	mu       sync.Mutex
	question uint64                    // guarded by mu: the newest one
	latest   map[raft.ServerID]contact // guarded by mu
}

type contact struct{ term, question uint64 }

// ask begins a question and gives its number.
func (c *contacts) ask() uint64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.question++
	return c.question
}

// newest is the number to note an answer with whose request is being sent now.
func (c *contacts) newest() uint64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.question
}

func (c *contacts) note(id raft.ServerID, term, question uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.latest == nil {
		c.latest = make(map[raft.ServerID]contact)
	}
	if k := c.latest[id]; term > k.term || term == k.term && question > k.question {
		c.latest[id] = contact{term, question}
	}
}

// quorum reports whether most voters, self among them, have answered to requests of
// the term that were sent after the question was asked.
func (c *contacts) quorum(servers []raft.Server, self raft.ServerID, term, question uint64) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	voters, yes := 0, 0
	for _, s := range servers {
		if s.Suffrage != raft.Voter {
			continue
		}
		voters++
		if k := c.latest[s.ID]; s.ID == self || k.term == term && k.question >= question {
			yes++
		}
	}
	return yes > voters/2
}

// verifyAgain is the pause between two questions, when every node may have answered the first
// ones to no avail: raft takes a learner's yes for a voter's, and the learner may be the
// quickest by far.
const verifyAgain = time.Millisecond

// verifyLeader returns nil when a quorum has said, asked after the call, that this node
// leads. It asks until then, or until raft gives up, which it does when a quorum has said
// nothing for a while.
func (n *Node) verifyLeader() error {
	question, term := n.contacts.ask(), n.term.Load()
	for tries := 1; ; tries++ {
		if err := n.raft.VerifyLeader().Error(); err != nil {
			return err
		}
		switch {
		case n.contacts.quorum(n.servers(), n.storage.id, term, question):
			return nil
		case n.raft.CurrentTerm() != term:
			return errors.New("another term has begun")
		case tries > maxNodes:
			<-time.After(verifyAgain)
		}
	}
}
