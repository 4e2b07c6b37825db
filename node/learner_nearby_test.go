package node

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/raft"
)

// farNet is a network with a high latency to every node but the learner.
type farNet struct{ *raft.InmemTransport }

func (f farNet) AppendEntries(id raft.ServerID, to raft.ServerAddress, a *raft.AppendEntriesRequest, r *raft.AppendEntriesResponse) error {
	if id == learner {
		pass(100 * time.Microsecond)
	} else {
		pass(20 * time.Millisecond)
	}
	return f.InmemTransport.AppendEntries(id, to, a, r)
}

const learner = "n3"

// TestALearnerNearbyDoesNotKeepReadersFromAnAnswer: raft's VerifyLeader counts a learner's
// acknowledgement as a voter's. A learner that is faster than all voters, because it is nearer or
// has the better disk, does not make the leader give up.
func TestALearnerNearbyDoesNotKeepReadersFromAnAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := openReplicas(t, 4, func(c *Config) {
			c.SimEnv.Servers = slices.Clone(c.SimEnv.Servers)
			c.SimEnv.Servers[3].Suffrage = raft.Nonvoter
		}, func(_ int, t *raft.InmemTransport) raft.Transport { return farNet{t} })
		defer c.close()
		var l *Node
		for l == nil {
			pass(100 * time.Millisecond)
			for _, n := range c.nodes {
				if n.requireLeader() == nil {
					l = n
				}
			}
		}
		b := begin(t, l, time.Hour)
		for range 20 {
			start := time.Now()
			if _, err := l.Get(t.Context(), b.ID); err != nil {
				t.Fatalf("a read: %v, after %v", err, time.Since(start))
			}
			if took := time.Since(start); took > 100*time.Millisecond {
				t.Errorf("a read took %v", took)
			}
			pass(7 * time.Millisecond)
		}
	})
}
