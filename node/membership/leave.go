package membership

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/txmgr/txmgr/node/peer"
	"github.com/txmgr/txmgr/txn"
)

// Leave removes this node from the cluster for ever. The process keeps running, and can be
// stopped. The audit trail has who wanted that, and the reason, if they are given.
func (c *Cluster) Leave(ctx context.Context, by, reason string) error {
	const op = "cluster leave"
	if err := c.requireCluster(op); err != nil {
		return err
	}
	if c.peerServer == nil {
		return errNoPeerServer(op)
	}
	if c.conf.Node.IsLeader() {
		if c.Voters() == 1 {
			return &txn.Error{Op: op, Err: txn.ErrInvalid, Detail: "it is the last voter: just stop it"}
		}
		if err := c.checkQuorumWithout(ctx, c.id); err != nil {
			return txn.Wrap(op, txn.ID{}, err)
		}
		if err := c.transferAway(ctx); err != nil {
			return err
		}
	}
	ctx, cancel := context.WithTimeout(ctx, configChangeTimeout)
	defer cancel()
	ticker := time.NewTicker(100 * time.Millisecond)
	defer ticker.Stop()
	last := fmt.Errorf("%w: no leader is known that could let it go", txn.ErrUnavailable)
	for {
		gone, err := c.requestLeave(ctx, by, reason)
		if gone {
			c.removed.Store(true)
			return nil
		}
		if err != nil {
			last = err
		}
		if err != nil && !errors.Is(err, txn.ErrUnavailable) {
			return txn.Wrap(op, txn.ID{}, err)
		}
		select {
		case <-ticker.C:
		case <-c.conf.Context.Done():
			return txn.Wrap(op, txn.ID{}, errStopping)
		case <-ctx.Done():
			return txn.Wrap(op, txn.ID{}, last)
		}
	}
}

// requestLeave asks the leader once, if one is known. If the answer to an earlier request was
// lost, the leader rejects this node altogether, which confirms the removal.
func (c *Cluster) requestLeave(ctx context.Context, by, reason string) (gone bool, err error) {
	address, id := c.raft.LeaderWithID()
	if address == "" || id == c.id {
		return false, nil
	}
	_, err = c.peerServer.Leave(ctx, string(address), by, reason)
	return err == nil || errors.Is(err, peer.ErrRemoved), err
}

// errNoPeerServer is the error of a node in the simulation, which cannot send requests to others.
func errNoPeerServer(op string) error {
	return &txn.Error{Op: op, Err: txn.ErrUnavailable, Detail: "this node has no port for other nodes"}
}
