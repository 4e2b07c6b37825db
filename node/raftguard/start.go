package raftguard

import (
	"errors"
	"fmt"
	"log/slog"
	"math"
	"time"

	"github.com/hashicorp/raft"

	"github.com/txmgr/txmgr/node/storage"
	"github.com/txmgr/txmgr/txn"
)

const (
	// singleNodeElectionTimeout is the election timeout of a cluster of one, which disturbs no
	// other node and should be available at once.
	singleNodeElectionTimeout = 50 * time.Millisecond
	// electionTimeout is that of several nodes. raft begins an election one to three of these after
	// the leader's last contact, and the other nodes vote only when theirs has expired: half of
	// raft's default keeps writes from standing still for more than three seconds. The leader sends
	// ten heartbeats within it.
	electionTimeout = 500 * time.Millisecond
)

// Start starts raft in its environment. With an empty log and without initial servers it
// waits to be added to a cluster.
func Start(g *Env, fsm raft.FSM, trailing uint64, logger *slog.Logger) (r *raft.Raft, err error) {
	conf := raftConfig(g, trailing, logger)
	if err := repairInterruptedBootstrap(g); err != nil {
		return nil, fmt.Errorf("reading the log: %w", err)
	}
	known, err := raft.HasExistingState(g.Log, g.Log, g.Snapshots)
	if err != nil {
		return nil, fmt.Errorf("reading the log: %w", err)
	}
	if !known && len(g.InitialServers) > 0 {
		if err := raft.BootstrapCluster(conf, g.Log, g.Log, g.Snapshots, g.Transport, raft.Configuration{Servers: g.InitialServers}); err != nil {
			return nil, fmt.Errorf("forming the cluster: %w", err)
		}
	}
	// raft panics on what it cannot read when it starts.
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("%w: raft cannot start: %v", storage.ErrDamaged, p)
		}
	}()
	in := new(staleSnapshotGuard)
	if r, err = raft.NewRaft(conf, guardedFSM{fsm}, observedLog{g.Log, g.OnAppend}, g.Log, guardedSnapshotStore{g.Snapshots, in}, g.Transport); err != nil {
		return nil, fmt.Errorf("starting raft: %w", err)
	}
	in.raft.Store(r)
	servers := r.GetConfiguration().Configuration().Servers
	if g.SingleNode && (len(servers) != 1 || servers[0].ID != g.ID) {
		return nil, errors.Join(fmt.Errorf("%w: this data directory is that of one of several nodes (%d are left, as far as it knows): give it an address for the others (raft_listen)", txn.ErrInvalid, len(servers)), r.Shutdown().Error())
	}
	return r, nil
}

func raftConfig(g *Env, trailing uint64, logger *slog.Logger) *raft.Config {
	conf := raft.DefaultConfig()
	conf.LocalID = g.ID
	conf.Logger = Logger(logger)
	// The node does both by size: see node.Node.Snapshot.
	conf.SnapshotThreshold, conf.TrailingLogs = math.MaxUint64, trailing
	// A node that is removed from the cluster must not end the process: it reports its removal.
	conf.ShutdownOnRemove = false
	conf.HeartbeatTimeout, conf.ElectionTimeout, conf.LeaderLeaseTimeout = electionTimeout, electionTimeout, electionTimeout
	if g.SingleNode {
		conf.HeartbeatTimeout, conf.ElectionTimeout, conf.LeaderLeaseTimeout = singleNodeElectionTimeout, singleNodeElectionTimeout, singleNodeElectionTimeout
	}
	if g.TuneRaft != nil {
		g.TuneRaft(conf)
	}
	return conf
}
