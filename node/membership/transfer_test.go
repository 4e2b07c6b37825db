package membership

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/raft"

	"github.com/txmgr/txmgr/node/peer"
	"github.com/txmgr/txmgr/raftfsm"
)

// TestTransferTargetIsAlive: leadership is transferred to a node with a recent contact, and not to
// one with the same progress that has lost contact.
func TestTransferTargetIsAlive(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		nodes := startRafts(t, "n1", "n2", "n3")
		<-time.After(time.Minute)
		l := slices.IndexFunc(nodes, func(c *Cluster) bool { return c.raft.State() == raft.Leader })
		c, applied := nodes[l], nodes[l].raft.AppliedIndex()
		a, b := string(nodes[(l+1)%3].id), string(nodes[(l+2)%3].id)
		for dead, alive := range map[string]string{a: b, b: a} {
			c.autopilot.record(dead, applied+100)
			<-time.After(time.Minute)
			c.autopilot.record(alive, applied-1)
			if m, ok := c.TransferTarget(); !ok || m.ID != alive {
				t.Errorf("the heir is %+v; want %s", m, alive)
			}
		}
	})
}

// startRafts starts nodes that reach one another in memory only.
func startRafts(t *testing.T, ids ...raft.ServerID) (nodes []*Cluster) {
	t.Helper()
	var servers []raft.Server
	var nets []*raft.InmemTransport
	for _, id := range ids {
		_, net := raft.NewInmemTransport(raft.ServerAddress(id))
		for i, other := range nets {
			other.Connect(raft.ServerAddress(id), net)
			net.Connect(servers[i].Address, other)
		}
		servers, nets = append(servers, raft.Server{ID: id, Address: raft.ServerAddress(id)}), append(nets, net)
	}
	for i, s := range servers {
		conf := raft.DefaultConfig()
		conf.LocalID, conf.Logger = s.ID, hclog.NewNullLogger()
		store, snapshots, fsm := raft.NewInmemStore(), raft.NewInmemSnapshotStore(), raftfsm.New(raftfsm.Config{})
		if err := raft.BootstrapCluster(conf, store, store, snapshots, nets[i], raft.Configuration{Servers: servers}); err != nil {
			t.Fatal(err)
		}
		r, err := raft.NewRaft(conf, fsm, store, store, snapshots, nets[i])
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = r.Shutdown().Error() })
		c := New(Config{Self: peer.Identity{ID: string(s.ID)}, View: fsm.View})
		c.Start(r, nil)
		nodes = append(nodes, c)
	}
	return nodes
}
