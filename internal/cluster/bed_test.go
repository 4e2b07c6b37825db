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
	"github.com/txmgr/txmgr/txn"
)

// bed is a cluster of three nodes.
type bed struct {
	t     *testing.T
	dir   string
	net   *network
	nodes []*node
	m     *client.Client // knows all three
	log   *rig.Chronicle
}

// newBed makes a cluster whose nodes are down, with TLS and tokens, as "txmgr config
// init" makes them for users. args are for each server.
func newBed(t *testing.T, args ...string) *bed {
	b := &bed{t: t, net: newNetwork(t), log: new(rig.Chronicle)}
	var err error
	b.dir, err = os.MkdirTemp(scratch, "bed-")
	b.must(err)
	t.Cleanup(b.tell)
	config := []string{"config", "init", "--dir", b.papers()}
	for i := range size {
		n := newNode(t, b.net, i)
		b.nodes = append(b.nodes, n)
		config = append(config, "--node", n.Name+"="+b.net.address(i))
	}
	b.tool(program, config...)
	for _, n := range b.nodes {
		n.dir = filepath.Join(b.dir, n.Name)
		b.must(os.Mkdir(n.dir, 0o700))
		n.args = append([]string{"--config", filepath.Join(b.papers(), n.Name, "server.yaml"), "--data-dir", n.dir}, args...)
		n.wrap()
		n.m = b.open(n.api(), 5*time.Second)
		t.Cleanup(func() {
			n.Kill()
			n.keep(os.Getenv("TXMGR_CLUSTER_LOGS"))
		})
	}
	b.m = b.dial(30 * time.Second)
	return b
}

// papers is where certificates, tokens and settings are.
func (b *bed) papers() string { return filepath.Join(b.dir, "papers") }

// dial opens a client that knows all nodes.
func (b *bed) dial(patience time.Duration) *client.Client {
	b.t.Helper()
	var all []string
	for _, n := range b.nodes {
		all = append(all, n.api())
	}
	return b.open(strings.Join(all, ","), patience)
}

// open opens a client as somebody who may do everything.
func (b *bed) open(address string, patience time.Duration) *client.Client {
	b.t.Helper()
	m, err := client.Open(client.Config{
		Address: address, RequestTimeout: patience,
		CACertFile: filepath.Join(b.papers(), "ca.pem"), TokenFile: filepath.Join(b.papers(), "root.token"),
	})
	b.must(err)
	b.t.Cleanup(func() { _ = m.Close() })
	return m
}

// tool runs a program to its end.
func (b *bed) tool(name string, args ...string) {
	b.t.Helper()
	if out, err := exec.Command(name, args...).CombinedOutput(); err != nil {
		b.t.Fatalf("%s %s: %v: %s", name, strings.Join(args, " "), err, out)
	}
}

func (b *bed) must(err error) {
	b.t.Helper()
	if err != nil {
		b.t.Fatal(err)
	}
}

// form starts all nodes and returns when they are a cluster.
func (b *bed) form() {
	b.t.Helper()
	for _, n := range b.nodes {
		b.must(n.Start(b.t.Context()))
	}
	b.whole()
}

// whole waits until every node is up, votes, follows the same leader and has what the
// leader had.
func (b *bed) whole() {
	b.t.Helper()
	b.soon(patience, "the cluster is whole", func(ctx context.Context) error { return b.together(ctx, size) })
}

// together reports whether so many nodes are one cluster.
func (b *bed) together(ctx context.Context, want int) error {
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
		if s.LeaderID != leader.Node || s.Term != leader.Term || s.LogIndex+50 < leader.LogIndex || s.Waiting != "" {
			return fmt.Errorf("%s follows %q in term %d at entry %d and waits for %q; %s leads in term %d at entry %d",
				n.Name, s.LeaderID, s.Term, s.LogIndex, s.Waiting, leader.Node, leader.Term, leader.LogIndex)
		}
	}
	return nil
}

// statuses asks all nodes at once, and leaves out those that do not answer.
func (b *bed) statuses(ctx context.Context) map[*node]txn.Status {
	var mu sync.Mutex
	var asking sync.WaitGroup
	all := map[*node]txn.Status{}
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

// leading is the status of the one that leads in the highest term.
func leading(all map[*node]txn.Status) (txn.Status, error) {
	var found txn.Status
	for _, s := range all {
		if s.Leader && s.Term > found.Term {
			found = s
		}
	}
	if !found.Leader {
		return found, errors.New("nobody leads")
	}
	return found, nil
}

// leader waits for the node that leads, and gives the others, too.
func (b *bed) leader() (leader *node, followers []*node) {
	b.t.Helper()
	b.soon(patience, "somebody leads", func(ctx context.Context) error {
		var err error
		leader, followers, err = b.roles(ctx)
		return err
	})
	return leader, followers
}

func (b *bed) roles(ctx context.Context) (leader *node, followers []*node, err error) {
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

// lead has a node lead.
func (b *bed) lead(n *node) {
	b.t.Helper()
	b.soon(patience, n.Name+" leads", func(ctx context.Context) error {
		s, err := n.status(ctx)
		if err != nil || s.Leader {
			return err
		}
		if err := b.m.TransferLeader(ctx, s.Node); err != nil {
			return err
		}
		return errors.New("it does not lead yet")
	})
}

// ids gives each node's own id.
func (b *bed) id(n *node) string {
	b.t.Helper()
	var id string
	b.soon(patience, n.Name+" says its id", func(ctx context.Context) error {
		s, err := n.status(ctx)
		id = s.Node
		return err
	})
	return id
}

// tell prints what is needed to find out what went wrong.
func (b *bed) tell() {
	if !b.t.Failed() {
		return
	}
	b.t.Logf("what happened:\n%s", b.log)
	for _, n := range b.nodes {
		b.t.Logf("the end of what %s said:\n%s", n.Name, n.text(12<<10))
	}
}
