package node

import (
	"errors"
	"fmt"
	"log/slog"
	"math"
	"time"

	"github.com/hashicorp/raft"

	"github.com/txmgr/txmgr/internal/bed"
	"github.com/txmgr/txmgr/raftfsm/logstore"
	"github.com/txmgr/txmgr/txn"
)

const (
	snapshotsKept = 2
	// soloTimeout is the election timeout of a cluster of one, which has nobody
	// to disturb and should be back at once.
	soloTimeout = 50 * time.Millisecond
	// peerTimeout is that of several nodes. raft begins an election one to three of
	// these after a leader's last word, and the other nodes help only when theirs is
	// over: half of raft's default keeps writes from standing still for more than
	// three seconds. The leader says something ten times within it.
	peerTimeout = 500 * time.Millisecond
)

// ground is what a node stands on: its disk, the way to the other nodes, and how a
// cluster begins.
type ground struct {
	*storage
	transport raft.Transport
	alone     bool               // there are no other nodes, and never will be in this life
	first     []raft.Server      // form the cluster when the log is empty
	tune      func(*raft.Config) // may be nil
	appending func([]*raft.Log)  // as of [watchedLog]
}

// startRaft starts raft on its ground. With an empty log and nobody to begin with it
// waits to be added to a cluster.
func startRaft(g *ground, fsm raft.FSM, trailing uint64, logger *slog.Logger) (r *raft.Raft, err error) {
	conf := raftConfig(g, trailing, logger)
	if err := undoHalfFounding(g); err != nil {
		return nil, fmt.Errorf("reading the log: %w", err)
	}
	known, err := raft.HasExistingState(g.log, g.log, g.snaps)
	if err != nil {
		return nil, fmt.Errorf("reading the log: %w", err)
	}
	if !known && len(g.first) > 0 {
		if err := raft.BootstrapCluster(conf, g.log, g.log, g.snaps, g.transport, raft.Configuration{Servers: g.first}); err != nil {
			return nil, fmt.Errorf("forming the cluster: %w", err)
		}
	}
	// raft panics on what it cannot read at its start.
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("%w: raft cannot start: %v", ErrDamaged, p)
		}
	}()
	in := new(installs)
	if r, err = raft.NewRaft(conf, installFSM{fsm}, watchedLog{g.log, g.appending}, g.log, installStore{g.snaps, in}, g.transport); err != nil {
		return nil, fmt.Errorf("starting raft: %w", err)
	}
	in.raft.Store(r)
	servers := r.GetConfiguration().Configuration().Servers
	if g.alone && (len(servers) != 1 || servers[0].ID != g.id) {
		return nil, errors.Join(fmt.Errorf("%w: this data directory is that of one of several nodes (%d are left, as far as it knows): give it an address for the others, --raft-listen", txn.ErrInvalid, len(servers)), r.Shutdown().Error())
	}
	return r, nil
}

// undoHalfFounding takes back what a crash in the middle of a founding has left: raft writes
// the term 1 before the first entry, and founds nothing where there is a term.
func undoHalfFounding(g *ground) error {
	last, err := g.log.LastIndex()
	if err != nil || last > 0 {
		return err
	}
	snaps, err := g.snaps.List()
	if err != nil || len(snaps) > 0 {
		return err
	}
	voted, err := storedNumber(g.log, keyLastVoteTerm)
	if err != nil || voted > 0 {
		return err
	}
	if term, err := storedNumber(g.log, keyCurrentTerm); err != nil || term != 1 {
		return err
	}
	return g.log.SetUint64(keyCurrentTerm, 0)
}

// storedNumber is 0 where there is none.
func storedNumber(s raft.StableStore, key []byte) (uint64, error) {
	v, err := s.GetUint64(key)
	if err != nil && err.Error() == logstore.ErrKeyNotFound.Error() { // as raft compares it
		return 0, nil
	}
	return v, err
}

func raftConfig(g *ground, trailing uint64, logger *slog.Logger) *raft.Config {
	conf := raft.DefaultConfig()
	conf.LocalID = g.id
	conf.Logger = hclogger(logger)
	// The node does both by bytes: see [Node.Snapshot].
	conf.SnapshotThreshold, conf.TrailingLogs = math.MaxUint64, trailing
	// A node that is taken out of the cluster must not end the process: it says so.
	conf.ShutdownOnRemove = false
	conf.HeartbeatTimeout, conf.ElectionTimeout, conf.LeaderLeaseTimeout = peerTimeout, peerTimeout, peerTimeout
	if g.alone {
		conf.HeartbeatTimeout, conf.ElectionTimeout, conf.LeaderLeaseTimeout = soloTimeout, soloTimeout, soloTimeout
	}
	if g.tune != nil {
		g.tune(conf)
	}
	return conf
}

// aloneGround is that of a coordinator without others.
func aloneGround(s *storage) *ground {
	addr, transport := raft.NewInmemTransport("")
	return &ground{storage: s, transport: transport, alone: true, first: []raft.Server{{ID: s.id, Address: addr}}}
}

// bedGround is that of the simulation.
func bedGround(b *bed.Bed) *ground {
	return &ground{
		storage:   &storage{log: bedLog{b.Log}, snaps: b.Snapshots, id: b.ID},
		transport: b.Transport, first: b.Servers, tune: b.Tune,
	}
}
