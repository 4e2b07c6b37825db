package membership

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/hashicorp/raft"

	"github.com/txmgr/txmgr/txn"
	"github.com/txmgr/txmgr/txn/machine"
)

// Remove removes a node from the cluster for ever: its id is rejected from then on. A leader
// that is to be removed transfers the leadership first, and returns [txn.ErrUnavailable].
func (c *Cluster) Remove(ctx context.Context, node, by, reason string) error {
	const op = "cluster remove"
	if err := c.requireCluster(op); err != nil {
		return err
	}
	if len(reason) > txn.MaxReason {
		return &txn.Error{Op: op, Err: txn.ErrInvalid, Detail: fmt.Sprintf("reason has %d bytes; at most %d", len(reason), txn.MaxReason)}
	}
	if err := c.conf.Node.RequireLeader(); err != nil {
		return txn.Wrap(op, txn.ID{}, err)
	}
	c.mu.Lock() // one change at a time
	defer c.mu.Unlock()
	m, err := c.findMember(op, node)
	if err != nil {
		return err
	}
	if m.Voter && c.Voters() == 1 {
		return &txn.Error{Op: op, Err: txn.ErrInvalid, Detail: "it is the last voter: without it there is no cluster"}
	}
	s := raft.Server{ID: raft.ServerID(m.ID)}
	if m.Voter {
		s.Suffrage = raft.Voter
	} else {
		s.Suffrage = raft.Nonvoter
	}
	if m.Self {
		if err := c.checkQuorumWithout(ctx, s.ID); err != nil {
			return txn.Wrap(op, txn.ID{}, err)
		}
		if err := c.transferAway(ctx); err != nil {
			return err
		}
		return &txn.Error{Op: op, Err: txn.ErrUnavailable, Detail: "the node to be removed led, and has handed over: ask again"}
	}
	if err := c.removeServer(ctx, s, by, reason); err != nil {
		return txn.Wrap(op, txn.ID{}, err)
	}
	return nil
}

// configChangeTimeout bounds one change of raft's configuration.
const configChangeTimeout = 10 * time.Second

// configChangeUnknown wraps the error of a change of raft's configuration: the change may have
// been made all the same.
func configChangeUnknown(err error) error {
	return fmt.Errorf("%w: %w; Status returns the nodes", txn.ErrUnavailable, err)
}

// removeServer removes a node from raft's configuration and records for ever that its id is removed. The
// caller holds mu.
func (c *Cluster) removeServer(ctx context.Context, s raft.Server, by, reason string) error {
	if s.Suffrage == raft.Voter {
		if err := c.checkQuorumWithout(ctx, s.ID); err != nil {
			return err
		}
	}
	if err := c.raft.RemoveServer(s.ID, 0, configChangeTimeout).Error(); err != nil {
		return configChangeUnknown(err)
	}
	c.autopilot.drop(string(s.ID))
	return c.recordRemoved(ctx, string(s.ID), by, reason)
}

// recordRemoved records in the log that an id is never used again.
func (c *Cluster) recordRemoved(ctx context.Context, id, by, reason string) error {
	ctx, cancel := context.WithTimeout(ctx, configChangeTimeout)
	defer cancel()
	res, err := c.proposals.Propose(ctx, machine.RemoveMember{Node: id, By: by, Reason: reason})
	if err == nil && res.Code != machine.OK {
		err = res.ToError("cluster remove", txn.ID{})
	}
	return err
}

// checkQuorumWithout returns an error if the voters that are left without id have no quorum
// because too many of them do not answer. raft would make the change, and wait for them for ever
// (docs/decisions/0019).
func (c *Cluster) checkQuorumWithout(ctx context.Context, id raft.ServerID) error {
	if c.peerServer == nil {
		return nil // in the simulation, which has to check this itself
	}
	ctx, cancel := context.WithTimeout(ctx, peerCallTimeout)
	defer cancel()
	var wg sync.WaitGroup
	var mu sync.Mutex
	voters, unreachable := 0, []string(nil) // unreachable: guarded by mu
	for _, s := range c.Servers() {
		if s.Suffrage != raft.Voter || s.ID == id {
			continue
		}
		voters++
		if s.ID == c.id {
			continue
		}
		wg.Go(func() {
			if who, err := c.peerServer.Hello(ctx, string(s.Address)); err == nil && who.ID == string(s.ID) {
				return
			}
			mu.Lock()
			defer mu.Unlock()
			unreachable = append(unreachable, cmp.Or(c.Record(string(s.ID)).Name, string(s.ID)))
		})
	}
	wg.Wait()
	if 2*(voters-len(unreachable)) > voters {
		return nil
	}
	slices.Sort(unreachable)
	return fmt.Errorf("%w: without node %s, %d of the %d voters that are left would not answer (%s), and nothing could be decided any more: bring them back, or remove them first", txn.ErrConflict, id, len(unreachable), voters, strings.Join(unreachable, ", "))
}
