package tour

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/txmgr/txmgr/client"
	"github.com/txmgr/txmgr/txn"
)

// fleet is the coordinator of a tour: one process, or three that stand in for one
// another. It is for one goroutine at a time.
type fleet struct {
	nodes []*coordinator
}

// askPatience bounds one question to one node.
const askPatience = time.Second

// newFleet makes the nodes; none of them runs yet.
func newFleet(n int, program, dir string, env []string) (*fleet, error) {
	ports, err := freePorts(2 * n)
	if err != nil {
		return nil, err
	}
	f := &fleet{}
	listen, raft := ports[:n], ports[n:]
	for i := range n {
		c := &coordinator{program: program, name: string(rune('a' + i)), dir: dir, env: env, listen: listen[i]}
		if n > 1 {
			c.dir = filepath.Join(dir, "node-"+c.name)
			if err := os.Mkdir(c.dir, 0o700); err != nil {
				return nil, err
			}
			c.peers = []string{"--name", c.name, "--raft-listen", raft[i], "--bootstrap-expect", strconv.Itoa(n), "--join", strings.Join(raft, ",")}
		}
		if c.ask, err = client.Open(client.Config{Address: c.address(), RequestTimeout: askPatience, FailFast: true, Unary: true}); err != nil {
			return nil, err
		}
		f.nodes = append(f.nodes, c)
	}
	return f, nil
}

// several reports whether the nodes stand in for one another.
func (f *fleet) several() bool { return len(f.nodes) > 1 }

// addresses are those of all nodes, as a client takes them.
func (f *fleet) addresses() string {
	var all []string
	for _, c := range f.nodes {
		all = append(all, c.address())
	}
	return strings.Join(all, ",")
}

// start starts the nodes that are down, and waits until one leads.
func (f *fleet) start(ctx context.Context) error {
	errs := make([]error, len(f.nodes))
	var all sync.WaitGroup
	for i, c := range f.nodes {
		if c.run == nil {
			all.Go(func() { errs[i] = c.start(ctx) })
		}
	}
	all.Wait()
	if err := errors.Join(errs...); err != nil {
		return err
	}
	_, _, err := f.awaitLeader(ctx)
	return err
}

// leader gives the node that leads a cluster, by its own word, and its status; nil when
// none says so. Of two the one with the higher term is right: the other has not heard yet.
func (f *fleet) leader(ctx context.Context) (lead *coordinator, s txn.Status) {
	for _, c := range f.nodes {
		if c.run == nil {
			continue
		}
		got, err := c.ask.Status(ctx)
		if err == nil && got.Leader && got.Cluster != "" && (lead == nil || got.Term > s.Term) {
			lead, s = c, got
		}
	}
	return lead, s
}

// awaitLeader waits until a node leads.
func (f *fleet) awaitLeader(ctx context.Context) (lead *coordinator, s txn.Status, err error) {
	err = f.until(ctx, "no node leads", func(ctx context.Context) bool {
		lead, s = f.leader(ctx)
		return lead != nil
	})
	return lead, s, err
}

// awaitEntry waits until a node has applied the log up to an entry.
func (f *fleet) awaitEntry(ctx context.Context, c *coordinator, index uint64) error {
	return f.until(ctx, c.name+" does not catch up", func(ctx context.Context) bool {
		s, err := c.ask.Status(ctx)
		return err == nil && s.LogIndex >= index
	})
}

// until looks again and again until done, or startPatience is over.
func (f *fleet) until(ctx context.Context, otherwise string, done func(context.Context) bool) error {
	ctx, cancel := context.WithTimeout(ctx, startPatience)
	defer cancel()
	again := time.NewTicker(2 * lookEvery)
	defer again.Stop()
	for !done(ctx) {
		select {
		case <-again.C:
		case <-ctx.Done():
			return fmt.Errorf("%s: %w%s", otherwise, context.Cause(ctx), f.said())
		}
	}
	return nil
}

// said is what the nodes have to say about themselves.
func (f *fleet) said() string {
	var b strings.Builder
	for _, c := range f.nodes {
		if c.run != nil {
			fmt.Fprintf(&b, "\n%s: %s", c.name, c.run.log)
		}
	}
	return b.String()
}

// kill ends all nodes at once, as a power cut does, and says how many there were.
func (f *fleet) kill() (killed int, err error) {
	for _, c := range f.nodes {
		if c.run != nil {
			killed++
			err = errors.Join(err, c.kill())
		}
	}
	return killed, err
}

// stop asks all nodes to end.
func (f *fleet) stop() error {
	errs := make([]error, len(f.nodes))
	var all sync.WaitGroup
	for i, c := range f.nodes {
		all.Go(func() { errs[i] = c.stop() })
	}
	all.Wait()
	return errors.Join(errs...)
}

// close stops the nodes and lets go.
func (f *fleet) close() error {
	err := f.stop()
	for _, c := range f.nodes {
		err = errors.Join(err, c.ask.Close())
	}
	return err
}
