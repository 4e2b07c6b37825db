package raftguard

import (
	"github.com/hashicorp/raft"

	"github.com/txmgr/txmgr/internal/simenv"
	"github.com/txmgr/txmgr/node/storage"
)

// Env is the environment of a node: its disk, its transport, and how a cluster begins.
type Env struct {
	*storage.Storage
	Transport      raft.Transport
	SingleNode     bool               // there are no other nodes, and never will be as long as this process runs
	InitialServers []raft.Server      // form the cluster when the log is empty
	TuneRaft       func(*raft.Config) // may be nil
	OnAppend       func([]*raft.Log)  // called with the entries that raft is about to store, also those of another leader
}

// SingleNode is the environment of a coordinator without other nodes.
func SingleNode(s *storage.Storage) *Env {
	addr, transport := raft.NewInmemTransport("")
	return &Env{Storage: s, Transport: transport, SingleNode: true, InitialServers: []raft.Server{{ID: s.ID, Address: addr}}}
}

// Simulated is the environment of the simulation.
func Simulated(b *simenv.Env) *Env {
	return &Env{
		Storage:   storage.Simulated(b),
		Transport: b.Transport, InitialServers: b.Servers, TuneRaft: b.TuneRaft,
	}
}
