package node

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/txmgr/txmgr/txn"
)

// TestCutOffLeaderAcknowledgesNothing: a leader whose entries reach nobody does not
// say that they are done, and the next leader knows nothing of them.
func TestCutOffLeaderAcknowledgesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := openReplicas(t, 3, nil)
		defer c.close()
		old := c.leader()
		b, err := c.nodes[old].Begin(t.Context(), txn.Options{Timeout: 10 * time.Minute})
		if err != nil {
			t.Fatal(err)
		}
		pass(time.Second)
		for j := range c.nets {
			if j != old {
				c.nets[j].Disconnect(c.servers[old].Address)
				c.nets[old].Disconnect(c.servers[j].Address)
			}
		}
		ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
		defer cancel()
		o, err := c.nodes[old].Commit(ctx, b.ID, txn.Commitment{})
		if !errors.Is(err, txn.ErrInDoubt) && !errors.Is(err, txn.ErrUnavailable) {
			t.Errorf("it answered a commit: %v, %v", o.State, err)
		}
		next := c.leader()
		if next == old {
			t.Fatal("the leader is the one that was cut off")
		}
		if i, err := c.nodes[next].Get(t.Context(), b.ID); err != nil || i.State != txn.Active {
			t.Errorf("at the next leader: %v, %v", i.State, err)
		}
	})
}
