package cluster

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/txmgr/txmgr/client"
	"github.com/txmgr/txmgr/internal/rig"
	"github.com/txmgr/txmgr/txn/admin"
)

// testCluster is a cluster of three nodes.
type testCluster struct {
	t      *testing.T
	dir    string
	net    *network
	nodes  []*node
	m      *client.Client // has the addresses of all three
	events *rig.EventLog
}

// newTestCluster creates a cluster whose nodes do not run, with TLS and tokens, as "txmgr config
// init" creates them for users. args are for each server.
func newTestCluster(t *testing.T, args ...string) *testCluster {
	b := &testCluster{t: t, net: newNetwork(t), events: new(rig.EventLog)}
	var err error
	b.dir, err = os.MkdirTemp(scratch, "bed-")
	b.must(err)
	t.Cleanup(b.printDiagnostics)
	config := []string{"config", "init", "--dir", b.provisionDir()}
	for i := range size {
		n := newNode(t, b.net, i)
		b.nodes = append(b.nodes, n)
		config = append(config, "--node", n.Name+"="+b.net.address(i))
	}
	b.runProgram(program, config...)
	for _, n := range b.nodes {
		n.dir = filepath.Join(b.dir, n.Name)
		b.must(os.Mkdir(n.dir, 0o700))
		n.args = append([]string{"--config", filepath.Join(b.provisionDir(), n.Name, "server.yaml"), "--data-dir", n.dir}, args...)
		n.wrap()
		n.m = b.open(n.api(), 5*time.Second)
		t.Cleanup(func() {
			n.Kill()
			n.saveOutput(os.Getenv("TXMGR_CLUSTER_LOGS"))
		})
	}
	b.m = b.dial(30 * time.Second)
	return b
}

// provisionDir is the directory of certificates, tokens and settings.
func (b *testCluster) provisionDir() string { return filepath.Join(b.dir, "papers") }

// dial opens a client with the addresses of all nodes.
func (b *testCluster) dial(timeout time.Duration) *client.Client {
	b.t.Helper()
	var all []string
	for _, n := range b.nodes {
		all = append(all, n.api())
	}
	return b.open(strings.Join(all, ","), timeout)
}

// open opens a client with the role admin.
func (b *testCluster) open(address string, timeout time.Duration) *client.Client {
	b.t.Helper()
	m, err := client.Open(client.Config{
		Address: address, RequestTimeout: timeout,
		CACertFile: filepath.Join(b.provisionDir(), "ca.pem"), TokenFile: filepath.Join(b.provisionDir(), "root.token"),
	})
	b.must(err)
	b.t.Cleanup(func() { _ = m.Close() })
	return m
}

// runProgram runs a program to its end.
func (b *testCluster) runProgram(name string, args ...string) {
	b.t.Helper()
	if out, err := exec.Command(name, args...).CombinedOutput(); err != nil {
		b.t.Fatalf("%s %s: %v: %s", name, strings.Join(args, " "), err, out)
	}
}

func (b *testCluster) must(err error) {
	b.t.Helper()
	if err != nil {
		b.t.Fatal(err)
	}
}

// form starts all nodes and returns when they are a cluster.
func (b *testCluster) form() {
	b.t.Helper()
	for _, n := range b.nodes {
		b.must(n.Start(b.t.Context()))
	}
	b.awaitHealthy()
}

// awaitHealthy waits until every node runs, votes, follows the same leader and has applied what the
// leader had.
func (b *testCluster) awaitHealthy() {
	b.t.Helper()
	b.eventually(waitTimeout, "the cluster is whole", func(ctx context.Context) error { return b.checkFormed(ctx, size) })
}

// checkFormed reports whether want nodes are one cluster.
func (b *testCluster) checkFormed(ctx context.Context, want int) error {
	all := b.statuses(ctx)
	if len(all) < want {
		return fmt.Errorf("%d nodes answer, want %d", len(all), want)
	}
	leader, err := leading(all)
	if err != nil {
		return err
	}
	voters := map[string]bool{}
	for _, m := range leader.Members {
		if m.Voter {
			voters[m.ID] = true
		}
	}
	if len(voters) != want {
		return fmt.Errorf("%d vote, want %d: %+v", len(voters), want, leader.Members)
	}
	for n, s := range all {
		if !voters[s.Node] {
			continue // it was removed
		}
		if s.LeaderID != leader.Node || s.Term != leader.Term || s.LogIndex+50 < leader.LogIndex || s.WaitingFor != "" {
			return fmt.Errorf("%s follows %q in term %d at entry %d and waits for %q; %s leads in term %d at entry %d",
				n.Name, s.LeaderID, s.Term, s.LogIndex, s.WaitingFor, leader.Node, leader.Term, leader.LogIndex)
		}
	}
	return nil
}

// statuses reads the status of all nodes at once, and leaves out those that do not answer.
func (b *testCluster) statuses(ctx context.Context) map[*node]admin.Status {
	var mu sync.Mutex
	var asking sync.WaitGroup
	all := map[*node]admin.Status{}
	for _, n := range b.nodes {
		asking.Go(func() {
			if s, err := n.status(ctx); err == nil {
				mu.Lock()
				defer mu.Unlock()
				all[n] = s
			}
		})
	}
	asking.Wait()
	return all
}

// leading is the status of the leader of the highest term.
func leading(all map[*node]admin.Status) (admin.Status, error) {
	var found admin.Status
	for _, s := range all {
		if s.Leader && s.Term > found.Term {
			found = s
		}
	}
	if !found.Leader {
		return found, errors.New("no leader")
	}
	return found, nil
}

// leader waits for the leader, and returns it and the others.
func (b *testCluster) leader() (leader *node, followers []*node) {
	b.t.Helper()
	b.eventually(waitTimeout, "somebody leads", func(ctx context.Context) error {
		var err error
		leader, followers, err = b.roles(ctx)
		return err
	})
	return leader, followers
}

func (b *testCluster) roles(ctx context.Context) (leader *node, followers []*node, err error) {
	all := b.statuses(ctx)
	found, err := leading(all)
	if err != nil {
		return nil, nil, err
	}
	for _, n := range b.nodes {
		if s, ok := all[n]; ok && s.Node == found.Node {
			leader = n
		} else {
			followers = append(followers, n)
		}
	}
	return leader, followers, nil
}

// makeLeader makes a node the leader.
func (b *testCluster) makeLeader(n *node) {
	b.t.Helper()
	b.eventually(waitTimeout, n.Name+" leads", func(ctx context.Context) error {
		s, err := n.status(ctx)
		if err != nil || s.Leader {
			return err
		}
		if err := b.m.Admin().TransferLeader(ctx, s.Node, "", ""); err != nil {
			return err
		}
		return errors.New("it does not lead yet")
	})
}

// id returns the id of a node.
func (b *testCluster) id(n *node) string {
	b.t.Helper()
	var id string
	b.eventually(waitTimeout, n.Name+" says its id", func(ctx context.Context) error {
		s, err := n.status(ctx)
		id = s.Node
		return err
	})
	return id
}

// printDiagnostics prints what is needed to find the cause of a failure.
func (b *testCluster) printDiagnostics() {
	if !b.t.Failed() {
		return
	}
	b.t.Logf("what happened:\n%s", b.events)
	for _, n := range b.nodes {
		b.t.Logf("the end of what %s said:\n%s", n.Name, n.outputTail(12<<10))
	}
}
