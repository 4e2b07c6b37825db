package node

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/raft"
)

// TestAnOldAnswerProvesNothing: only voters' answers in this term count, and only those to
// requests that were sent after the round had begun.
func TestAnOldAnswerProvesNothing(t *testing.T) {
	servers := []raft.Server{{ID: "me"}, {ID: "a"}, {ID: "b"}, {ID: "learner", Suffrage: raft.Nonvoter}}
	const before, asked, after = 4, 5, 6
	for _, c := range []struct {
		name string
		say  func(*ackTracker)
		want bool
	}{
		{"nobody", func(*ackTracker) {}, false},
		{"one that was sent before", func(c *ackTracker) { c.record("a", 7, before) }, false},
		{"one that was sent after", func(c *ackTracker) { c.record("a", 7, asked) }, true},
		{"one that was sent after a later question", func(c *ackTracker) { c.record("a", 7, after) }, true},
		{"of an earlier term", func(c *ackTracker) { c.record("a", 6, after) }, false},
		{"a learner's", func(c *ackTracker) { c.record("learner", 7, after) }, false},
		{"a stranger's", func(c *ackTracker) { c.record("x", 7, after) }, false},
		{"a late one that was sent before does not undo it", func(c *ackTracker) { c.record("a", 7, after); c.record("a", 7, before) }, true},
		{"nor one of an earlier term", func(c *ackTracker) { c.record("a", 7, after); c.record("a", 6, after) }, true},
	} {
		var k ackTracker
		c.say(&k)
		if got := k.quorum(servers, "me", 7, asked); got != c.want {
			t.Errorf("%s: %v; want %v", c.name, got, c.want)
		}
	}
	var alone ackTracker
	if !alone.quorum(servers[:1], "me", 7, asked) {
		t.Error("one voter alone is a quorum")
	}
}

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
