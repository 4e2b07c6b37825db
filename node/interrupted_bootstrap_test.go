package node

import (
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/raft"

	"github.com/txmgr/txmgr/internal/simenv"
	"github.com/txmgr/txmgr/node/storage"
	"github.com/txmgr/txmgr/txn"
	"github.com/txmgr/txmgr/txn/admin"
)

// interruptedBootstrap makes a data directory as a crash leaves it between the two writes with
// which raft bootstraps a cluster: it has the term, and not the first entry.
func interruptedBootstrap(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	s, err := storage.Open(dir, 0, func(err error) { t.Error(err) }, hclog.NewNullLogger())
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Log.SetUint64(storage.CurrentTermKey, 1); err != nil {
		t.Fatal(err)
	}
	if err := s.Log.Close(); err != nil {
		t.Fatal(err)
	}
	return dir
}

// TestCrashDuringBootstrap: a node that was killed between the two writes of a bootstrap completes
// it when it is started again, as a single node or with others.
func TestCrashDuringBootstrap(t *testing.T) {
	alone, err := tryOpen(t, interruptedBootstrap(t), slow)
	if err != nil {
		t.Errorf("alone: %v", err)
	} else {
		begin(t, alone, time.Minute)
		closes(t, "the one that is alone", alone)
	}
	addr := freePorts(t, 2)
	var nodes []*Node
	for _, a := range addr {
		nodes = append(nodes, openMember(t, interruptedBootstrap(t), Cluster{Listen: a, Expect: 2, Join: addr}))
	}
	begin(t, leaderOf(t, nodes...), time.Minute)
}

// TestACrashInTheMiddleOfAVote: raft writes the term of a vote and its candidate one after the
// other. A node that was killed in between has the new term with the candidate of its previous
// vote. It must not take that for a vote that it has cast: then it would not check that the
// candidate has all acknowledged entries.
func TestACrashInTheMiddleOfAVote(t *testing.T) {
	s, err := storage.Open(t.TempDir(), 0, func(err error) { t.Error(err) }, hclog.NewNullLogger())
	if err != nil {
		t.Fatal(err)
	}
	defer s.Log.Close()
	behind := raft.ServerAddress("behind")
	entry := raft.Configuration{Servers: []raft.Server{{ID: s.ID, Address: "me"}, {ID: "n_b", Address: behind}, {ID: "n_c", Address: "dead"}}}
	for _, do := range []func() error{
		func() error { return s.Log.SetUint64(storage.LastVoteTermKey, 4) },
		func() error { return s.Log.Set([]byte("LastVoteCand"), []byte(behind)) },
		func() error {
			return s.Log.StoreLogs([]*raft.Log{
				{Index: 1, Term: 1, Type: raft.LogConfiguration, Data: raft.EncodeConfiguration(entry)},
				{Index: 2, Term: 6, Type: raft.LogNoop}, // the candidate lacks this entry
			})
		},
		func() error { return s.Log.SetUint64(storage.CurrentTermKey, 7) },
		func() error { return s.Log.SetUint64(storage.LastVoteTermKey, 7) }, // a vote for another candidate, interrupted by the crash
	} {
		if err := do(); err != nil {
			t.Fatal(err)
		}
	}
	_, net := raft.NewInmemTransport("me")
	_, other := raft.NewInmemTransport(behind)
	other.Connect("me", net)
	n, err := Open(t.Context(), Config{SimEnv: &simenv.Env{
		ID: s.ID, Transport: net, Log: s.Log, Snapshots: raft.NewInmemSnapshotStore(),
		TuneRaft: func(c *raft.Config) { c.HeartbeatTimeout, c.ElectionTimeout = time.Hour, time.Hour },
	}})
	if err != nil {
		t.Fatal(err)
	}
	defer n.Close()
	ask := raft.RequestVoteRequest{
		RPCHeader: raft.RPCHeader{ProtocolVersion: raft.ProtocolVersionMax, ID: []byte("n_b"), Addr: []byte(behind)},
		Term:      7, LastLogIndex: 1, LastLogTerm: 1,
	}
	var answer raft.RequestVoteResponse
	if err := other.RequestVote(s.ID, "me", &ask, &answer); err != nil {
		t.Fatal(err)
	}
	if answer.Granted {
		t.Error("it voted for a candidate that lacks what it has itself")
	}
}

// TestNothingIsKnownYet: a node that belongs to no cluster yet answers all queries of its own
// state.
func TestNothingIsKnownYet(t *testing.T) {
	n := openMember(t, t.TempDir(), Cluster{Listen: freePorts(t, 1)[0]})
	ctx := txn.AllowStale(t.Context())
	if d, err := n.Admin().InDoubts(ctx); err != nil || len(d) > 0 {
		t.Errorf("doubts: %v, %v", d, err)
	}
	if l, err := n.List(ctx, admin.Filter{ExpiresWithin: time.Minute}); err != nil || len(l) > 0 {
		t.Errorf("list: %v, %v", l, err)
	}
	if g, err := n.Admin().DeadlineGroups(ctx, admin.DeadlineGroupRange{}); err != nil || len(g.Groups) > 0 {
		t.Errorf("groups: %v, %v", g, err)
	}
}
