package embedded

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"sync"
	"time"

	"github.com/txmgr/txmgr/bench/peers/internal/rig"
	"github.com/txmgr/txmgr/node"
	"github.com/txmgr/txmgr/txn/admin"
)

// Cluster is a cluster of three nodes in three processes.
type Cluster struct {
	members []*workerProcess
}

// Start starts three processes of this program, with args and the data directory after them, and
// forms a cluster of them. It returns what has been started even if it fails.
func Start(ctx context.Context, dir string, args ...string) (*Cluster, error) {
	c := new(Cluster)
	var join []string
	for _, name := range []string{"one", "two", "three"} {
		m, err := rig.StartWorker[request, response](context.WithoutCancel(ctx), name, append(args, filepath.Join(dir, "inside-"+name))...)
		if err != nil {
			return c, err
		}
		c.members = append(c.members, m)
		port, err := rig.FreePort()
		if err != nil {
			return c, err
		}
		join = append(join, fmt.Sprintf("127.0.0.1:%d", port))
	}
	for i, m := range c.members {
		conf := node.Cluster{Listen: join[i], Name: m.Name, Expect: len(join), Join: join}
		if _, err := m.Call(request{Do: "open", Cluster: &conf}); err != nil {
			return c, err
		}
	}
	return c, c.complete(ctx)
}

// complete waits until a leader has three voters.
func (c *Cluster) complete(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	ticker := time.NewTicker(20 * time.Millisecond)
	defer ticker.Stop()
	for {
		_, s, err := c.leader()
		voters := 0
		for _, m := range s.Members {
			if m.Voter {
				voters++
			}
		}
		if err == nil && voters == len(c.members) {
			return nil
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return fmt.Errorf("a minute after the start %d nodes vote: %w", voters, errors.Join(err, ctx.Err()))
		}
	}
}

var errNoLeader = errors.New("no node leads")

// leader finds the leader.
func (c *Cluster) leader() (of *workerProcess, s admin.Status, err error) {
	for _, m := range c.members {
		a, err := m.Call(request{Do: "status"})
		if err != nil {
			return nil, s, err
		}
		if a.Status.Leader && (of == nil || a.Status.Term > s.Term) {
			of, s = m, *a.Status
		}
	}
	if of == nil {
		return nil, s, errNoLeader
	}
	return of, s, nil
}

// awaitLeader returns the leader, and waits for one if there is none.
func (c *Cluster) awaitLeader(ctx context.Context) (*workerProcess, admin.Status, error) {
	ticker := time.NewTicker(20 * time.Millisecond)
	defer ticker.Stop()
	for began := time.Now(); ; {
		m, s, err := c.leader()
		if !errors.Is(err, errNoLeader) || time.Since(began) > time.Minute {
			return m, s, err
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return nil, s, context.Cause(ctx)
		}
	}
}

// Pairs measures in the process of the leader. If another node leads afterwards the sample says so,
// and has no figures.
func (c *Cluster) Pairs(ctx context.Context, callers int, span time.Duration) (*Pairs, error) {
	m, before, err := c.awaitLeader(ctx)
	if err != nil {
		return nil, err
	}
	start, err := c.followerCPU(m)
	if err != nil {
		return nil, err
	}
	a, failed := m.Call(request{Do: "pairs", Callers: callers, Span: span})
	_, after, err := c.awaitLeader(ctx)
	if err != nil {
		return nil, errors.Join(failed, err)
	}
	if after.Term != before.Term {
		return &Pairs{LeaderMoved: true}, nil
	}
	if failed != nil {
		return nil, failed
	}
	end, err := c.followerCPU(m)
	// The warm-up is a sixth of the time, and only the pairs of the span are counted.
	a.Pairs.FollowerCPU = (end - start) * 5 / 6 / time.Duration(a.Pairs.Sample.Pairs)
	return a.Pairs, err
}

// followerCPU is the processor time of all but m so far.
func (c *Cluster) followerCPU(m *workerProcess) (sum time.Duration, err error) {
	for _, other := range c.members {
		if other == m {
			continue
		}
		t, err := other.CPU()
		if err != nil {
			return 0, err
		}
		sum += t
	}
	return sum, nil
}

// DeadlineGroup begins count transactions with one deadline, which is lead away before the first
// begin.
func (c *Cluster) DeadlineGroup(ctx context.Context, count int, lead time.Duration) (*DeadlineGroup, error) {
	m, _, err := c.awaitLeader(ctx)
	if err != nil {
		return nil, err
	}
	a, err := m.Call(request{Do: "group", Count: count, Lead: lead})
	if err != nil {
		return nil, err
	}
	g := a.Group
	for _, other := range c.members {
		if other != m {
			return g, g.readEntrySizes(other)
		}
	}
	return g, nil
}

// readEntrySizes reads the sizes of the entries from the log of a follower.
func (g *DeadlineGroup) readEntrySizes(m *workerProcess) error {
	a, err := m.Call(request{Do: "sizes", First: g.First, Last: g.Last})
	if err != nil {
		return err
	}
	g.Entries, g.Bytes = len(a.Sizes), a.Sizes[0]
	for _, n := range a.Sizes {
		g.All += n
	}
	return nil
}

// Profile makes the processes write CPU profiles to files whose names begin with file, until the
// next call; the empty name ends that.
func (c *Cluster) Profile(ctx context.Context, file string) error {
	if file == "" {
		for _, m := range c.members {
			if _, err := m.Call(request{Do: "profile"}); err != nil {
				return err
			}
		}
		return nil
	}
	leader, _, err := c.awaitLeader(ctx)
	if err != nil {
		return err
	}
	for _, m := range c.members {
		name := file + "." + m.Name + ".follower"
		if m == leader {
			name = file + "." + m.Name + ".leader"
		}
		if _, err := m.Call(request{Do: "profile", File: name}); err != nil {
			return err
		}
	}
	return nil
}

// Stop stops the processes, all at once.
func (c *Cluster) Stop() error {
	errs := make([]error, len(c.members))
	var wg sync.WaitGroup
	for i, m := range c.members {
		wg.Go(func() { errs[i] = m.Stop() })
	}
	wg.Wait()
	return errors.Join(errs...)
}
