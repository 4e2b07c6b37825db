package node

import (
	"errors"
	"fmt"
	"log/slog"
	"math"
	"time"

	"github.com/hashicorp/raft"

	"github.com/txmgr/txmgr/internal/simenv"
	"github.com/txmgr/txmgr/node/storage"
	"github.com/txmgr/txmgr/raftfsm/logstore"
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

// raftEnv is the environment of a node: its disk, its transport, and how a cluster begins.
type raftEnv struct {
	*storage.Storage
	transport      raft.Transport
	singleNode     bool               // there are no other nodes, and never will be as long as this process runs
	initialServers []raft.Server      // form the cluster when the log is empty
	tuneRaft       func(*raft.Config) // may be nil
	onAppend       func([]*raft.Log)  // as of [observedLog]
}

// startRaft starts raft in its environment. With an empty log and without initial servers it
// waits to be added to a cluster.
func startRaft(g *raftEnv, fsm raft.FSM, trailing uint64, logger *slog.Logger) (r *raft.Raft, err error) {
	conf := raftConfig(g, trailing, logger)
	if err := repairInterruptedBootstrap(g); err != nil {
		return nil, fmt.Errorf("reading the log: %w", err)
	}
	known, err := raft.HasExistingState(g.Log, g.Log, g.Snapshots)
	if err != nil {
		return nil, fmt.Errorf("reading the log: %w", err)
	}
	if !known && len(g.initialServers) > 0 {
		if err := raft.BootstrapCluster(conf, g.Log, g.Log, g.Snapshots, g.transport, raft.Configuration{Servers: g.initialServers}); err != nil {
			return nil, fmt.Errorf("forming the cluster: %w", err)
		}
	}
	// raft panics on what it cannot read when it starts.
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("%w: raft cannot start: %v", ErrDamaged, p)
		}
	}()
	in := new(staleSnapshotGuard)
	if r, err = raft.NewRaft(conf, guardedFSM{fsm}, observedLog{g.Log, g.onAppend}, g.Log, guardedSnapshotStore{g.Snapshots, in}, g.transport); err != nil {
		return nil, fmt.Errorf("starting raft: %w", err)
	}
	in.raft.Store(r)
	servers := r.GetConfiguration().Configuration().Servers
	if g.singleNode && (len(servers) != 1 || servers[0].ID != g.ID) {
		return nil, errors.Join(fmt.Errorf("%w: this data directory is that of one of several nodes (%d are left, as far as it knows): give it an address for the others, --raft-listen", txn.ErrInvalid, len(servers)), r.Shutdown().Error())
	}
	return r, nil
}

// repairInterruptedBootstrap undoes what a crash during a bootstrap leaves behind: raft writes
// the term 1 before the first entry, and bootstraps nothing where there is a term.
func repairInterruptedBootstrap(g *raftEnv) error {
	last, err := g.Log.LastIndex()
	if err != nil || last > 0 {
		return err
	}
	snaps, err := g.Snapshots.List()
	if err != nil || len(snaps) > 0 {
		return err
	}
	voted, err := loadUint64(g.Log, storage.LastVoteTermKey)
	if err != nil || voted > 0 {
		return err
	}
	if term, err := loadUint64(g.Log, storage.CurrentTermKey); err != nil || term != 1 {
		return err
	}
	return g.Log.SetUint64(storage.CurrentTermKey, 0)
}

// loadUint64 returns 0 for a missing key.
func loadUint64(s raft.StableStore, key []byte) (uint64, error) {
	v, err := s.GetUint64(key)
	if err != nil && err.Error() == logstore.ErrKeyNotFound.Error() { // as raft compares it
		return 0, nil
	}
	return v, err
}

func raftConfig(g *raftEnv, trailing uint64, logger *slog.Logger) *raft.Config {
	conf := raft.DefaultConfig()
	conf.LocalID = g.ID
	conf.Logger = hclogger(logger)
	// The node does both by size: see [Node.Snapshot].
	conf.SnapshotThreshold, conf.TrailingLogs = math.MaxUint64, trailing
	// A node that is removed from the cluster must not end the process: it reports its removal.
	conf.ShutdownOnRemove = false
	conf.HeartbeatTimeout, conf.ElectionTimeout, conf.LeaderLeaseTimeout = electionTimeout, electionTimeout, electionTimeout
	if g.singleNode {
		conf.HeartbeatTimeout, conf.ElectionTimeout, conf.LeaderLeaseTimeout = singleNodeElectionTimeout, singleNodeElectionTimeout, singleNodeElectionTimeout
	}
	if g.tuneRaft != nil {
		g.tuneRaft(conf)
	}
	return conf
}

// singleNodeEnv is the environment of a coordinator without other nodes.
func singleNodeEnv(s *storage.Storage) *raftEnv {
	addr, transport := raft.NewInmemTransport("")
	return &raftEnv{Storage: s, transport: transport, singleNode: true, initialServers: []raft.Server{{ID: s.ID, Address: addr}}}
}

// newSimEnv is the environment of the simulation.
func newSimEnv(b *simenv.Env) *raftEnv {
	return &raftEnv{
		Storage:   storage.Simulated(b),
		transport: b.Transport, initialServers: b.Servers, tuneRaft: b.TuneRaft,
	}
}
