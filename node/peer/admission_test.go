package peer

import (
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/hashicorp/raft"

	"github.com/txmgr/txmgr/internal/certs"
	"github.com/txmgr/txmgr/internal/waittest"
	"github.com/txmgr/txmgr/txn"
)

// Which nodes are admitted, by either kind of connection.
func TestAdmission(t *testing.T) {
	type change = func(*Identity)
	for name, tt := range map[string]struct {
		dialer, acceptor change
		removed          bool // the dialer, as the acceptor knows
		raft, ask        error
	}{
		"one cluster":           {},
		"the dialer is fresh":   {dialer: func(i *Identity) { i.Cluster = "" }},
		"the acceptor is fresh": {acceptor: func(i *Identity) { i.Cluster = "" }},
		"a fresh one has no incarnation": {
			dialer:   func(i *Identity) { i.Cluster = "" },
			acceptor: func(i *Identity) { i.Incarnation = 3 },
		},
		"another cluster":     {dialer: func(i *Identity) { i.Cluster = "d" }, raft: ErrClusterMismatch, ask: ErrClusterMismatch},
		"another incarnation": {dialer: func(i *Identity) { i.Incarnation = 1 }, raft: ErrClusterMismatch, ask: ErrClusterMismatch},
		"removed":             {removed: true, raft: ErrRemoved, ask: ErrRemoved},
		"the same id":         {dialer: func(i *Identity) { i.ID = "n_b" }, raft: ErrDuplicateID},
		"an id that is none":  {dialer: func(i *Identity) { i.ID = "" }, raft: txn.ErrUnavailable, ask: txn.ErrUnavailable},
		"an id too long":      {dialer: func(i *Identity) { i.ID = strings.Repeat("n", maxID+1) }, raft: txn.ErrUnavailable, ask: txn.ErrUnavailable},
	} {
		t.Run(name, func(t *testing.T) {
			a, b := start(t, "n_a"), start(t, "n_b")
			b.Transport()
			if tt.dialer != nil {
				a.update(tt.dialer)
			}
			if tt.acceptor != nil {
				b.update(tt.acceptor)
			}
			if tt.removed {
				b.remove("n_a")
			}
			for kind, want := range map[byte]error{frameRaft: tt.raft, frameCall: tt.ask} {
				c, err := a.dial(testContext(t), b.Addr(), kind, "n_b")
				if !errors.Is(err, want) || want == nil && err != nil {
					t.Errorf("kind %d: %v, want %v", kind, err, want)
				}
				if err == nil {
					c.Close()
				} else if errors.Is(want, txn.ErrDenied) && txn.CodeOf(err) != txn.CodeDenied {
					t.Errorf("kind %d: code %s", kind, txn.CodeOf(err))
				}
			}
		})
	}
}

// A node that took over another's address does not answer for it.
func TestElsewhere(t *testing.T) {
	a, b := start(t, "n_a"), start(t, "n_b")
	b.Transport()
	tr, at := a.Transport(), raft.ServerAddress(b.Addr())
	if err := tr.AppendEntries("n_old", at, &raft.AppendEntriesRequest{}, &raft.AppendEntriesResponse{}); !errors.Is(err, ErrIDMismatch) || !errors.Is(err, txn.ErrUnavailable) {
		t.Errorf("append meant for another: %v", err)
	}
	if err := tr.InstallSnapshot("n_old", at, &raft.InstallSnapshotRequest{}, &raft.InstallSnapshotResponse{}, strings.NewReader("")); !errors.Is(err, ErrIDMismatch) {
		t.Errorf("snapshot meant for another: %v", err)
	}
	if _, err := tr.AppendEntriesPipeline("n_old", at); !errors.Is(err, ErrIDMismatch) {
		t.Errorf("pipeline meant for another: %v", err)
	}
	// The stream that is right goes into a pool that the wrong id does not use.
	requests := b.Transport().Consumer() // from here on streams are taken
	go func() {
		rpc := <-requests
		rpc.Respond(&raft.RequestVoteResponse{Granted: true}, nil)
	}()
	var vote raft.RequestVoteResponse
	if err := tr.RequestVote("n_b", at, &raft.RequestVoteRequest{}, &vote); err != nil || !vote.Granted {
		t.Fatalf("%v, %+v", err, vote)
	}
	for name, ask := range map[string]func() error{
		"vote": func() error {
			return tr.RequestVote("n_old", at, &raft.RequestVoteRequest{}, &raft.RequestVoteResponse{})
		},
		"pre-vote": func() error {
			return tr.RequestPreVote("n_old", at, &raft.RequestPreVoteRequest{}, &raft.RequestPreVoteResponse{})
		},
		"timeout": func() error {
			return tr.TimeoutNow("n_old", at, &raft.TimeoutNowRequest{}, &raft.TimeoutNowResponse{})
		},
	} {
		if err := ask(); !errors.Is(err, ErrIDMismatch) {
			t.Errorf("%s meant for another, with a stream in the pool: %v", name, err)
		}
	}
	if n := a.log.count("no way to a node"); n != 1 {
		t.Errorf("%d warnings, want 1:\n%v", n, a.log)
	}
}

// Where raft's configuration has an old address, the address reported by the node counts.
func TestAddress(t *testing.T) {
	b := start(t, "n_b")
	a := start(t, "n_a", func(c *Config) {
		c.Address = func(id string) string {
			if id == "n_b" {
				return b.Addr()
			}
			return ""
		}
	})
	requests := b.Transport().Consumer() // from here on streams are taken
	go func() {
		rpc := <-requests
		rpc.Respond(&raft.RequestVoteResponse{Granted: true}, nil)
	}()
	var vote raft.RequestVoteResponse
	if err := a.Transport().RequestVote("n_b", "127.0.0.1:1", &raft.RequestVoteRequest{}, &vote); err != nil || !vote.Granted {
		t.Errorf("%v, %+v", err, vote)
	}
	if got := a.Transport().LocalAddr(); string(got) != a.Addr() {
		t.Errorf("raft is told address %q, others reach it at %q", got, a.Addr())
	}
}

// Streams wait until raft has started, and requests do not.
func TestBeforeRaft(t *testing.T) {
	a, b := start(t, "n_a"), start(t, "n_b")
	if _, err := a.dial(testContext(t), b.Addr(), frameRaft, "n_b"); !errors.Is(err, txn.ErrUnavailable) || !strings.Contains(err.Error(), "not started raft") {
		t.Errorf("a stream before raft: %v", err)
	}
	if who, err := a.Hello(testContext(t), b.Addr()); err != nil || who.ID != "n_b" {
		t.Errorf("hello before raft: %+v, %v", who, err)
	}
}

// A node that is removed while connected loses the connection, in both directions.
func TestRecheck(t *testing.T) {
	a, b := start(t, "n_a"), start(t, "n_b")
	for _, n := range []*node{a, b} {
		n.Transport()
	}
	in, err := a.dial(testContext(t), b.Addr(), frameRaft, "n_b")
	if err != nil {
		t.Fatal(err)
	}
	out, err := b.dial(testContext(t), a.Addr(), frameRaft, "n_a")
	if err != nil {
		t.Fatal(err)
	}
	b.Reauthorize()
	if n := len(b.conns.identified()); n != 2 {
		t.Fatalf("%d connections after a recheck that finds nothing, want 2", n)
	}
	b.remove("n_a")
	b.Reauthorize()
	for name, c := range map[string]*conn{"accepted": in, "dialed": out} {
		if _, err := c.Read(make([]byte, 1)); err == nil {
			t.Errorf("the connection that was %s still lives", name)
		}
	}
	waittest.Until(t, "no connections", func() bool { return len(b.conns.identified()) == 0 })
	in.Close()
}

// When raft shuts down its streams end, and no new one begins; requests are still served.
func TestRaftEndsFirst(t *testing.T) {
	a, b := start(t, "n_a"), start(t, "n_b")
	b.Transport()
	c, err := a.dial(testContext(t), b.Addr(), frameRaft, "n_b")
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if err := b.Transport().Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Read(make([]byte, 1)); !errors.Is(err, io.EOF) && !isDisconnect(err) {
		t.Errorf("the stream of a raft that is gone: %v", err)
	}
	if _, err := a.dial(testContext(t), b.Addr(), frameRaft, "n_b"); !errors.Is(err, txn.ErrUnavailable) {
		t.Errorf("a new stream: %v", err)
	}
	if _, err := a.Hello(testContext(t), b.Addr()); err != nil {
		t.Errorf("a question: %v", err)
	}
}

// TLS on one side only, and certificates that do not fit, by what each side reads.
func TestTLS(t *testing.T) {
	ours, foreign := authority(t, "bank"), authority(t, "shop")
	plain := func(*Config) {}
	good := certified(t, ours, "a", certs.RolePeer, certs.RoleServer)
	for name, tt := range map[string]struct {
		dialer, acceptor func(*Config)
		dials, accepts   string // what the error, and the log of the acceptor, say; empty: nothing
	}{
		"both":                  {good, certified(t, ours, "b", certs.RolePeer), "", ""},
		"the dialer has none":   {plain, good, "this port wants TLS", "connection to the port for peers was refused"},
		"the acceptor has none": {good, plain, "TLS", "speaks TLS, and this node has no certificates"},
		"another authority":     {certified(t, foreign, "a", certs.RolePeer), good, "of another authority", ""},
	} {
		t.Run(name, func(t *testing.T) {
			a, b := start(t, "n_a", tt.dialer), start(t, "n_b", tt.acceptor)
			_, err := a.Hello(testContext(t), b.Addr())
			switch {
			case tt.dials == "" && err != nil:
				t.Error(err)
			case tt.dials != "" && (err == nil || !strings.Contains(err.Error(), tt.dials)):
				t.Errorf("the dialer reads %v; want %q", err, tt.dials)
			}
			if tt.accepts != "" {
				waittest.Until(t, "a warning with "+tt.accepts, func() bool { return b.log.count(tt.accepts) > 0 })
			}
			if tt.dials == "" && b.log.count("WARN") > 0 {
				t.Errorf("log:\n%v", b.log)
			}
		})
	}
}
