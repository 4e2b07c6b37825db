package peer

import (
	"errors"
	"fmt"
	"io"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/raft"
)

// lossy is a transport in memory without pipelines, whose node n2 can be cut off and
// can lose the next acknowledgement of an append.
type lossy struct {
	*raft.InmemTransport
	fault *faults
}

type faults struct {
	mu   sync.Mutex // guards all below
	cut  bool
	lose int
}

func (f *faults) set(cut bool, lose int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.cut, f.lose = cut, lose
}

var errLost = errors.New("lost")

func (l *lossy) AppendEntriesPipeline(raft.ServerID, raft.ServerAddress) (raft.AppendPipeline, error) {
	return nil, raft.ErrPipelineReplicationNotSupported
}

func (l *lossy) AppendEntries(id raft.ServerID, to raft.ServerAddress, args *raft.AppendEntriesRequest, resp *raft.AppendEntriesResponse) error {
	<-time.After(time.Millisecond)
	if l.isCut(to) {
		return errLost
	}
	err := l.InmemTransport.AppendEntries(id, to, args, resp)
	l.fault.mu.Lock()
	defer l.fault.mu.Unlock()
	if to == "n2" && err == nil && resp.Success && len(args.Entries) > 0 && l.fault.lose > 0 {
		l.fault.lose--
		return errLost
	}
	return err
}

func (l *lossy) InstallSnapshot(id raft.ServerID, to raft.ServerAddress, args *raft.InstallSnapshotRequest, resp *raft.InstallSnapshotResponse, data io.Reader) error {
	<-time.After(time.Millisecond)
	if l.isCut(to) {
		return errLost
	}
	return l.InmemTransport.InstallSnapshot(id, to, args, resp, data)
}

func (l *lossy) isCut(to raft.ServerAddress) bool {
	l.fault.mu.Lock()
	defer l.fault.mu.Unlock()
	return l.fault.cut && to == "n2"
}

// raft's livelock shows in Progress while it lasts, and no longer: with the log in
// raft's own store in memory, where nothing mends it.
func TestProgressShowsLivelock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		broken := &faults{}
		var servers []raft.Server
		var below []*raft.InmemTransport
		for i := range 3 {
			addr, tr := raft.NewInmemTransport(raft.ServerAddress(fmt.Sprintf("n%d", i)))
			below, servers = append(below, tr), append(servers, raft.Server{ID: raft.ServerID(addr), Address: addr})
		}
		var nodes []*raft.Raft
		var tracked []*Tracked
		for i, tr := range below {
			for j, other := range below {
				if i != j {
					tr.Connect(servers[j].Address, other)
				}
			}
			conf := raft.DefaultConfig()
			conf.LocalID, conf.Logger = servers[i].ID, hclog.NewNullLogger()
			conf.TrailingLogs, conf.SnapshotThreshold, conf.SnapshotInterval = 10, 1<<20, time.Hour
			if i == 2 {
				conf.HeartbeatTimeout, conf.ElectionTimeout = 5*time.Second, 5*time.Second // it does not lead
			}
			store, snaps := raft.NewInmemStore(), raft.NewInmemSnapshotStore()
			watched := Track(&lossy{tr, broken})
			if err := raft.BootstrapCluster(conf, store, store, snaps, watched, raft.Configuration{Servers: servers}); err != nil {
				t.Fatal(err)
			}
			r, err := raft.NewRaft(conf, &counter{}, store, store, snaps, watched)
			if err != nil {
				t.Fatal(err)
			}
			nodes, tracked = append(nodes, r), append(tracked, watched)
		}
		defer func() {
			for _, r := range nodes {
				_ = r.Shutdown().Error()
			}
		}()
		<-time.After(10 * time.Second)
		l := 0
		if nodes[1].State() == raft.Leader {
			l = 1
		}
		put := func(n int) {
			for range n {
				if err := nodes[l].Apply([]byte("x"), time.Second).Error(); err != nil {
					t.Fatal(err)
				}
			}
		}
		of2 := func() (p Progress) {
			for _, p = range tracked[l].Progress() {
				if p.Node == "n2" {
					return p
				}
			}
			return Progress{}
		}
		put(20)
		<-time.After(time.Second)
		if p := of2(); p.Snapshots != 0 || p.Appends == 0 || p.Index < 20 {
			t.Errorf("all is well: %+v", p)
		}
		broken.set(true, 0)
		put(200)
		if err := nodes[l].Snapshot().Error(); err != nil {
			t.Fatal(err)
		}
		broken.set(false, 0)
		<-time.After(40 * time.Second)
		if p := of2(); p.Snapshots != 1 || p.Repeated != 0 || p.Refused != 0 {
			t.Errorf("after it came back: %+v", p)
		}
		broken.set(false, 1)
		put(11)
		<-time.After(10 * time.Second)
		if p := of2(); p.Repeated < 3 || nodes[2].AppliedIndex() >= nodes[l].AppliedIndex() {
			t.Errorf("in the livelock: %+v; it applied %d of %d", p, nodes[2].AppliedIndex(), nodes[l].AppliedIndex())
		}
		if err := nodes[l].Snapshot().Error(); err != nil {
			t.Fatal(err)
		}
		<-time.After(30 * time.Second)
		put(1)
		<-time.After(time.Second)
		if p := of2(); p.Repeated != 0 || p.Refused != 0 || nodes[2].AppliedIndex() != nodes[l].AppliedIndex() {
			t.Errorf("after a newer snapshot: %+v; it applied %d of %d", p, nodes[2].AppliedIndex(), nodes[l].AppliedIndex())
		}
	})
}
