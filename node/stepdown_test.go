package node

import (
	"errors"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/raft"

	"github.com/txmgr/txmgr/txn"
)

// narrowNet lets heartbeats pass. A sender of entries learns after some seconds that they did not
// arrive.
type narrowNet struct {
	*raft.InmemTransport
	narrow *atomic.Bool
}

func (n *narrowNet) AppendEntries(id raft.ServerID, to raft.ServerAddress, a *raft.AppendEntriesRequest, r *raft.AppendEntriesResponse) error {
	for range 100 {
		if len(a.Entries) == 0 || !n.narrow.Load() {
			return n.InmemTransport.AppendEntries(id, to, a, r)
		}
		pass(100 * time.Millisecond)
	}
	return os.ErrDeadlineExceeded
}

// TestLeaderWhoseEntriesDoNotArriveCloses: heartbeats pass and entries do not, as in a network that
// drops large packets. Nothing is decided, and leadership cannot be transferred. The leader can be
// stopped all the same, and so can the one that is elected next.
func TestLeaderWhoseEntriesDoNotArriveCloses(t *testing.T) {
	for _, stalled := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			var narrow atomic.Bool
			c := openReplicas(t, 3, nil, func(_ int, t *raft.InmemTransport) raft.Transport { return &narrowNet{t, &narrow} })
			defer c.close()
			defer narrow.Store(false)
			i := c.leader()
			n := c.nodes[i]
			begin(t, n, time.Hour)
			narrow.Store(true)
			begun := beginSoon(t, n)
			pass(time.Second)
			if stalled {
				pass(5 * time.Second)
			}
			if got := n.stallError() != nil; got != stalled {
				t.Fatalf("the node is stalled: %v, want %v", got, stalled)
			}
			began := time.Now()
			ends(t, &narrow, "stepping down", n.cluster.StepDown) // [Node.StepDown] does nothing in the simulation
			if took := time.Since(began); took > 3*time.Second {
				t.Errorf("stepping down took %v, want 3s at most", took)
			}
			ends(t, &narrow, "closing", func() {
				if err := n.Close(); err != nil {
					t.Errorf("closing: %v", err)
				}
			})
			c.nodes[i] = nil
			var next int // is elected, and does not complete taking over
			for next = -1; next < 0; pass(100 * time.Millisecond) {
				next = slices.IndexFunc(c.nodes, func(n *Node) bool { return n != nil && n.raft.State() == raft.Leader })
			}
			ends(t, &narrow, "closing while it takes over", func() {
				if err := c.nodes[next].Close(); err != nil {
					t.Errorf("closing: %v", err)
				}
			})
			c.nodes[next] = nil
			if err := <-begun; !errors.Is(err, txn.ErrInDoubt) {
				t.Errorf("the call that waited was told %v", err)
			}
		})
	}
}

// ends runs f, for a minute at most: then entries arrive again.
func ends(t *testing.T, narrow *atomic.Bool, what string, f func()) {
	t.Helper()
	ended := make(chan struct{})
	go func() { defer close(ended); f() }()
	select {
	case <-ended:
	case <-time.After(time.Minute):
		t.Errorf("%s has no end while entries do not arrive", what)
		narrow.Store(false)
		<-ended
		narrow.Store(true)
	}
}

// TestHandOverCountsInRaftsTerm: a node that is elected and has not taken over can transfer
// leadership, and asks no node twice in one of raft's terms, whatever the term in which it took
// over last.
func TestHandOverCountsInRaftsTerm(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var narrow atomic.Bool
		c := openReplicas(t, 3, nil, func(_ int, t *raft.InmemTransport) raft.Transport { return &narrowNet{t, &narrow} })
		defer c.close()
		defer narrow.Store(false)
		n := c.nodes[c.leader()]
		m, _ := n.cluster.TransferTarget()
		narrow.Store(true)
		begun := beginSoon(t, n)
		pass(100 * time.Millisecond)
		term := n.terms.latest.Swap(0)
		if err := n.cluster.TransferNow(t.Context(), m); err == nil || !strings.Contains(err.Error(), "transfer timeout") {
			t.Errorf("an heir who lacks an entry was asked: %v", err)
		}
		n.terms.latest.Store(term)
		if err := n.cluster.TransferNow(t.Context(), m); err == nil || !strings.Contains(err.Error(), "is not asked again in this term") {
			t.Errorf("he was asked again: %v", err)
		}
		narrow.Store(false)
		<-begun
	})
}
