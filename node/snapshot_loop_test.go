package node

import (
	"errors"
	"io"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/raft"

	"github.com/txmgr/txmgr/txn"
)

// lossyNet cuts one node off, or loses answers on the way back from it.
type lossyNet struct {
	*raft.InmemTransport
	victim   raft.ServerAddress
	cut      *atomic.Bool
	lose     *atomic.Int64 // so many answers to entries get lost
	installs *atomic.Int64
}

var errLost = errors.New("lost on the way")

func (l *lossyNet) AppendEntriesPipeline(raft.ServerID, raft.ServerAddress) (raft.AppendPipeline, error) {
	return nil, raft.ErrPipelineReplicationNotSupported
}

func (l *lossyNet) away(to raft.ServerAddress) bool {
	return l.cut.Load() && (to == l.victim || l.LocalAddr() == l.victim)
}

func (l *lossyNet) AppendEntries(id raft.ServerID, to raft.ServerAddress, a *raft.AppendEntriesRequest, r *raft.AppendEntriesResponse) error {
	pass(time.Millisecond)
	if l.away(to) {
		return errLost
	}
	err := l.InmemTransport.AppendEntries(id, to, a, r)
	if err == nil && r.Success && to == l.victim && len(a.Entries) > 0 && l.lose.Add(-1) >= 0 {
		return errLost
	}
	return err
}

func (l *lossyNet) RequestVote(id raft.ServerID, to raft.ServerAddress, a *raft.RequestVoteRequest, r *raft.RequestVoteResponse) error {
	if l.away(to) {
		return errLost
	}
	return l.InmemTransport.RequestVote(id, to, a, r)
}

func (l *lossyNet) RequestPreVote(id raft.ServerID, to raft.ServerAddress, a *raft.RequestPreVoteRequest, r *raft.RequestPreVoteResponse) error {
	if l.away(to) {
		return errLost
	}
	return l.InmemTransport.RequestPreVote(id, to, a, r)
}

func (l *lossyNet) InstallSnapshot(id raft.ServerID, to raft.ServerAddress, a *raft.InstallSnapshotRequest, r *raft.InstallSnapshotResponse, data io.Reader) error {
	pass(time.Millisecond)
	if l.away(to) {
		return errLost
	}
	if l.installs.Add(1) == 1 {
		l.lose.Store(1)
	}
	return l.InmemTransport.InstallSnapshot(id, to, a, r, data)
}

// TestLivelockOfRaftIsFreed: a follower that has just installed a snapshot loses its
// next answer. raft alone would send it that snapshot for ever.
func TestLivelockOfRaftIsFreed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var cut atomic.Bool
		var lose, installs atomic.Int64
		const victim = "n2"
		c := openReplicas(t, 3, func(c *Config) {
			id := c.SimEnv.ID
			c.SimEnv.TuneRaft = func(r *raft.Config) {
				r.TrailingLogs, r.SnapshotThreshold, r.SnapshotInterval = 10, 1<<20, time.Hour
				if id == victim { // unlikely to lead
					r.HeartbeatTimeout, r.ElectionTimeout = 5*time.Second, 5*time.Second
				}
			}
		}, func(_ int, t *raft.InmemTransport) raft.Transport {
			return &lossyNet{t, victim, &cut, &lose, &installs}
		})
		defer c.close()
		l := c.leader()
		if c.servers[l].ID == victim {
			t.Fatal("the wrong node leads")
		}
		n, behind := c.nodes[l], c.nodes[2]
		write := func(times int) {
			t.Helper()
			for range times {
				if _, err := n.Begin(t.Context(), txn.Options{Timeout: time.Hour}); err != nil {
					t.Fatal(err)
				}
			}
		}
		write(20)
		pass(time.Second)
		cut.Store(true)
		write(200)
		if err := n.Snapshot(); err != nil {
			t.Fatal(err)
		}
		cut.Store(false)
		for installs.Load() == 0 || lose.Load() > 0 {
			pass(time.Second) // raft tries again after 10 s
			write(1)
		}
		for started := time.Now(); n.raft.AppliedIndex() != behind.raft.AppliedIndex(); pass(time.Second + time.Millisecond) {
			if time.Since(started) > 30*time.Second {
				t.Fatalf("30 s later the follower is at entry %d, the leader at %d; %d snapshots were sent",
					behind.raft.AppliedIndex(), n.raft.AppliedIndex(), installs.Load())
			}
		}
		t.Logf("%d snapshots were sent", installs.Load())
	})
}
