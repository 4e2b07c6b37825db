package cluster

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/txmgr/txmgr/internal/rig"
)

// fault is a kind of fault. inject returns when the fault has ended, and describes it; an error
// means that it was not injected.
type fault struct {
	name   string
	inject func(ctx context.Context, c *chaos) (what string, err error)
}

// nodeFaults affect nodes and the connections between them, one at a time; databaseFaults are
// injected meanwhile.
var (
	nodeFaults = []fault{
		{"kill the leader", func(ctx context.Context, c *chaos) (string, error) {
			leader, _, err := c.b.roles(ctx)
			if err != nil {
				return "", err
			}
			return c.killAndRestart(ctx, leader)
		}},
		{"kill a follower", func(ctx context.Context, c *chaos) (string, error) {
			_, followers, err := c.b.roles(ctx)
			if err != nil {
				return "", err
			}
			return c.killAndRestart(ctx, followers[rand.IntN(len(followers))])
		}},
		{"kill two", func(ctx context.Context, c *chaos) (string, error) {
			spared := rand.IntN(size)
			var victims []*node
			for _, n := range c.b.nodes {
				if n.n != spared {
					victims = append(victims, n)
				}
			}
			return c.killAndRestart(ctx, victims...)
		}},
		{"kill all", func(ctx context.Context, c *chaos) (string, error) { return c.killAndRestart(ctx, c.b.nodes...) }},
		{"halt the leader", func(ctx context.Context, c *chaos) (string, error) {
			leader, _, err := c.b.roles(ctx)
			if err != nil {
				return "", err
			}
			d := between(time.Second, c.maxFault)
			return fmt.Sprintf("%s, for %v", leader.Name, d.Round(time.Millisecond)), leader.Suspend(ctx, d, nil)
		}},
		{"unplug the leader", func(ctx context.Context, c *chaos) (string, error) {
			leader, _, err := c.b.roles(ctx)
			if err != nil {
				return "", err
			}
			return c.cut(ctx, leader.Name+" from everybody", func() error { return c.b.net.setLink(leader.n, false) })
		}},
		{"cut the leader off", func(ctx context.Context, c *chaos) (string, error) {
			leader, followers, err := c.b.roles(ctx)
			if err != nil {
				return "", err
			}
			// Clients and databases still reach it.
			return c.cut(ctx, leader.Name+" from the other nodes", func() error {
				return errors.Join(c.b.net.partition(leader.n, followers[0].n), c.b.net.partition(leader.n, followers[1].n))
			})
		}},
		{"deafen the leader", func(ctx context.Context, c *chaos) (string, error) {
			leader, followers, err := c.b.roles(ctx)
			if err != nil {
				return "", err
			}
			return c.cut(ctx, leader.Name+" does not hear the others", func() error {
				return errors.Join(c.b.net.dropIncoming(leader.n, followers[0].n), c.b.net.dropIncoming(leader.n, followers[1].n))
			})
		}},
		{"have nobody hear the leader", func(ctx context.Context, c *chaos) (string, error) {
			leader, followers, err := c.b.roles(ctx)
			if err != nil {
				return "", err
			}
			return c.cut(ctx, leader.Name+" is not heard", func() error {
				return errors.Join(c.b.net.dropIncoming(followers[0].n, leader.n), c.b.net.dropIncoming(followers[1].n, leader.n))
			})
		}},
		{"cut one line", func(ctx context.Context, c *chaos) (string, error) {
			leader, followers, err := c.b.roles(ctx)
			if err != nil {
				return "", err
			}
			return c.cut(ctx, leader.Name+" from "+followers[0].Name, func() error { return c.b.net.partition(leader.n, followers[0].n) })
		}},
		{"slow and lossy lines", slowLines},
		{"change the leader again and again", changeLeaders},
	}
	databaseFaults = []fault{
		{"kill PostgreSQL", func(ctx context.Context, _ *chaos) (string, error) { return restartDatabase(ctx, pgServer) }},
		{"kill MariaDB", func(ctx context.Context, _ *chaos) (string, error) { return restartDatabase(ctx, mariaServer) }},
		cutLine(inBank), cutLine(inSavings), hangLine(inBank), hangLine(inSavings),
	}
)

func between(least, most time.Duration) time.Duration { return least + rand.N(most-least+1) }

// killAndRestart kills nodes at once, and restarts them after some time.
func (c *chaos) killAndRestart(ctx context.Context, victims ...*node) (string, error) {
	var dying sync.WaitGroup
	names := ""
	for _, n := range victims {
		names += n.Name + " "
		dying.Go(n.Kill)
	}
	dying.Wait()
	down := between(0, c.maxFault/2)
	rig.Sleep(ctx, down)
	for _, n := range victims {
		if err := n.Start(ctx); err != nil {
			return "", err
		}
	}
	return fmt.Sprintf("%sdown for %v", names, down.Round(time.Millisecond)), nil
}

// cut disturbs connections for some time.
func (c *chaos) cut(ctx context.Context, what string, disturb func() error) (string, error) {
	if err := disturb(); err != nil {
		return "", errors.Join(err, c.b.net.heal())
	}
	d := between(c.maxFault/2, c.maxFault)
	rig.Sleep(ctx, d)
	return fmt.Sprintf("%s, for %v", what, d.Round(time.Millisecond)), c.b.net.heal()
}

// slowLines delays all packets between nodes, and loses some.
func slowLines(ctx context.Context, c *chaos) (string, error) {
	const delay, loss = 30 * time.Millisecond, 0.05
	var overs []func() (packets, lost int, err error)
	var failure error
	for i := range size {
		over, err := c.b.net.slowLine(i, delay, loss)
		if err != nil {
			failure = err
			break
		}
		overs = append(overs, over)
	}
	if failure == nil {
		rig.Sleep(ctx, c.maxFault)
	}
	packets, lost := 0, 0
	for _, over := range overs {
		p, l, err := over()
		packets, lost, failure = packets+p, lost+l, errors.Join(failure, err)
	}
	if failure == nil && (packets == 0 || lost == 0) {
		failure = fmt.Errorf("%d packets passed, and %d were lost", packets, lost)
	}
	return fmt.Sprintf("%d packets were late by %v to %v, %d were lost", packets, delay, delay*3/2, lost), failure
}

// changeLeaders transfers leadership more often than any timeout ends.
func changeLeaders(ctx context.Context, c *chaos) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, 2*c.maxFault)
	defer cancel()
	changes := 0
	var last error
	for {
		if last = c.b.m.Admin().TransferLeader(ctx, "", "", ""); last == nil {
			changes++
		}
		if !rig.Sleep(ctx, 200*time.Millisecond) {
			break
		}
	}
	if changes == 0 {
		return "", last
	}
	return fmt.Sprintf("%d changes", changes), nil
}

// database is a server of testdb.
type database interface {
	Kill(context.Context) error
	Start(context.Context) error
}

func restartDatabase(ctx context.Context, db database) (string, error) {
	down := between(0, 2*time.Second)
	if err := db.Kill(ctx); err != nil {
		return "", err
	}
	rig.Sleep(ctx, down)
	return fmt.Sprintf("down for %v", down.Round(time.Millisecond)), db.Start(context.WithoutCancel(ctx))
}

func cutLine(place string) fault {
	return fault{"cut the line to " + place, func(_ context.Context, c *chaos) (string, error) {
		n := c.money.proxies[place].Disconnect()
		if n == 0 {
			return "", errors.New("there was no connection")
		}
		return fmt.Sprintf("%d ends", n), nil
	}}
}

func hangLine(place string) fault {
	return fault{"hang the line to " + place, func(ctx context.Context, c *chaos) (string, error) {
		release := c.money.proxies[place].Hang()
		rig.Sleep(ctx, 3*time.Second)
		release()
		return "for 3s", nil
	}}
}
