package node

import (
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/raft"

	"github.com/txmgr/txmgr/txn"
)

// slowNet lets heartbeats pass, and holds entries back.
type slowNet struct {
	*raft.InmemTransport
	hold *atomic.Bool
}

func (s *slowNet) AppendEntries(id raft.ServerID, to raft.ServerAddress, a *raft.AppendEntriesRequest, r *raft.AppendEntriesResponse) error {
	for len(a.Entries) > 0 && s.hold.Load() {
		pass(time.Millisecond)
	}
	return s.InmemTransport.AppendEntries(id, to, a, r)
}

// TestTakingOverTwiceInATermSetsNoClockBack: raft may tell a node twice that it leads in one
// term. It lays leadership down in between, and what is on its way then is committed later.
// That must not set its clock back: others may still count by what it wrote before, and be
// ahead of the deadlines that it gives from then on.
func TestTakingOverTwiceInATermSetsNoClockBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var hold atomic.Bool
		c := openReplicas(t, 3, nil, func(_ int, t *raft.InmemTransport) raft.Transport { return &slowNet{t, &hold} })
		defer c.close()
		first := c.leader()
		n := c.nodes[first]
		begin(t, n, time.Hour)
		pass(time.Second) // the others count by it
		hold.Store(true)
		go func() { _, _ = n.Begin(t.Context(), txn.Options{Timeout: time.Hour}) }()
		pass(3 * time.Second)
		counted, _ := n.clock.Now()

		n.terms.present.Load().revoke()
		if d, err := n.deadline(time.Minute); err == nil && d.term == 0 {
			t.Error("between the two it gives deadlines that any term takes")
		}
		hold.Store(false)
		again := n.establishLeadership()
		if again == nil {
			t.Fatal("it does not lead")
		}
		defer again.revoke()
		if now, _ := n.clock.Now(); now < counted {
			t.Errorf("its clock went from %d to %d", counted, now)
		}
	})
}
