package demo

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
	"github.com/txmgr/txmgr/txn/admin"
)

// coordinators is the coordinator of a demo: one process, or a cluster of three. It is for one
// goroutine at a time.
type coordinators struct {
	nodes []*coordinator
}

// statusTimeout bounds one status call to one node.
const statusTimeout = time.Second

// newCoordinators creates the nodes; none of them runs yet.
func newCoordinators(n int, program, dir string, env []string) (*coordinators, error) {
	ports, err := freePorts(2 * n)
	if err != nil {
		return nil, err
	}
	f := &coordinators{}
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
		if c.client, err = client.Open(client.Config{Address: c.address(), RequestTimeout: statusTimeout, FailFast: true, Unary: true}); err != nil {
			return nil, err
		}
		f.nodes = append(f.nodes, c)
	}
	return f, nil
}

// clustered reports whether there are several nodes.
func (f *coordinators) clustered() bool { return len(f.nodes) > 1 }

// addresses are the addresses of all nodes, in the form that a client expects.
func (f *coordinators) addresses() string {
	var all []string
	for _, c := range f.nodes {
		all = append(all, c.address())
	}
	return strings.Join(all, ",")
}

// start starts the nodes that do not run, and waits until one leads.
func (f *coordinators) start(ctx context.Context) error {
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

// leader returns the node that reports that it leads a cluster, and its status; nil if none does.
// Of two the one with the higher term leads: the other does not know of the election yet.
func (f *coordinators) leader(ctx context.Context) (lead *coordinator, s admin.Status) {
	for _, c := range f.nodes {
		if c.run == nil {
			continue
		}
		got, err := c.client.Admin().Status(ctx)
		if err == nil && got.Leader && got.Cluster != "" && (lead == nil || got.Term > s.Term) {
			lead, s = c, got
		}
	}
	return lead, s
}

// awaitLeader waits until a node leads.
func (f *coordinators) awaitLeader(ctx context.Context) (lead *coordinator, s admin.Status, err error) {
	err = f.poll(ctx, "no node leads", func(ctx context.Context) bool {
		lead, s = f.leader(ctx)
		return lead != nil
	})
	return lead, s, err
}

// awaitApplied waits until a node has applied the log up to index.
func (f *coordinators) awaitApplied(ctx context.Context, c *coordinator, index uint64) error {
	return f.poll(ctx, c.name+" does not catch up", func(ctx context.Context) bool {
		s, err := c.client.Admin().Status(ctx)
		return err == nil && s.LogIndex >= index
	})
}

// poll repeats until done returns true or startTimeout has passed.
func (f *coordinators) poll(ctx context.Context, otherwise string, done func(context.Context) bool) error {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	again := time.NewTicker(2 * pollInterval)
	defer again.Stop()
	for !done(ctx) {
		select {
		case <-again.C:
		case <-ctx.Done():
			return fmt.Errorf("%s: %w%s", otherwise, context.Cause(ctx), f.logTails())
		}
	}
	return nil
}

// logTails is the end of each node's log.
func (f *coordinators) logTails() string {
	var b strings.Builder
	for _, c := range f.nodes {
		if c.run != nil {
			fmt.Fprintf(&b, "\n%s: %s", c.name, c.run.log)
		}
	}
	return b.String()
}

// kill kills all nodes at once, as a power failure does, and returns their number.
func (f *coordinators) kill() (killed int, err error) {
	for _, c := range f.nodes {
		if c.run != nil {
			killed++
			err = errors.Join(err, c.kill())
		}
	}
	return killed, err
}

// stop stops all nodes.
func (f *coordinators) stop() error {
	errs := make([]error, len(f.nodes))
	var all sync.WaitGroup
	for i, c := range f.nodes {
		all.Go(func() { errs[i] = c.stop() })
	}
	all.Wait()
	return errors.Join(errs...)
}

// close stops the nodes and closes their clients.
func (f *coordinators) close() error {
	err := f.stop()
	for _, c := range f.nodes {
		err = errors.Join(err, c.client.Close())
	}
	return err
}
