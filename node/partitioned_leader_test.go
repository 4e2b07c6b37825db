package node

import (
	"context"
	"errors"
	"io"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/txmgr/txmgr/txn"
	"github.com/txmgr/txmgr/txn/admin"
)

// cutOff isolates a node from the others when no message is in flight between them: an answer in
// flight would count as one to the next request.
func (c *replicas) cutOff(node int) {
	synctest.Wait()
	for j := range c.nets {
		if j != node {
			c.nets[j].Disconnect(c.servers[node].Address)
			c.nets[node].Disconnect(c.servers[j].Address)
		}
	}
}

// TestCutOffLeaderAnswersNoRead: a leader that has been isolated, and has not noticed it
// yet, answers no read of the state, of any kind.
func TestCutOffLeaderAnswersNoRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := openReplicas(t, 3, nil)
		defer c.close()
		old := c.leader()
		n := c.nodes[old]
		b, err := n.Begin(t.Context(), txn.Options{Timeout: 10 * time.Minute})
		if err != nil {
			t.Fatal(err)
		}
		pass(time.Second)
		reads := map[string]func(context.Context) error{
			"get":  func(ctx context.Context) error { _, err := n.Get(ctx, b.ID); return err },
			"list": func(ctx context.Context) error { _, err := n.List(ctx, admin.Filter{}); return err },
			"groups": func(ctx context.Context) error {
				_, err := n.Admin().DeadlineGroups(ctx, admin.DeadlineGroupRange{})
				return err
			},
			"doubts":       func(ctx context.Context) error { _, err := n.Admin().InDoubts(ctx); return err },
			"audit":        func(ctx context.Context) error { _, err := n.Admin().Audit(ctx, admin.AuditFilter{}); return err },
			"participants": func(ctx context.Context) error { _, err := n.Admin().Participants(ctx); return err },
			"pools":        func(ctx context.Context) error { _, err := n.Admin().Pools(ctx, ""); return err },
			"tokens":       func(ctx context.Context) error { _, err := n.Admin().Tokens(ctx); return err },
			"backup":       func(ctx context.Context) error { _, err := n.Admin().Backup(ctx, io.Discard); return err },
		}
		for name, read := range reads {
			if err := read(t.Context()); err != nil {
				t.Errorf("%s, while it leads: %v", name, err)
			}
		}
		c.cutOff(old)
		if n.requireLeader() != nil {
			t.Fatal("it knows already that it does not lead: nothing is tried here")
		}
		ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
		defer cancel()
		var wg sync.WaitGroup
		for name, read := range reads {
			wg.Go(func() {
				if err := read(ctx); !errors.Is(err, txn.ErrUnavailable) {
					t.Errorf("%s, cut off: %v", name, err)
				}
			})
		}
		wg.Wait()
	})
}

// TestCutOffLeaderAcknowledgesNothing: a leader whose entries reach no other node does not
// acknowledge them, and the next leader does not have them.
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
		c.cutOff(old)
		ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
		defer cancel()
		o, err := c.nodes[old].Commit(ctx, b.ID, txn.CommitRequest{})
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
