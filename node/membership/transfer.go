package membership

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/raft"

	"github.com/txmgr/txmgr/txn"
	"github.com/txmgr/txmgr/txn/admin"
	"github.com/txmgr/txmgr/txn/machine"
)

// transfers records which followers did not take over when they were asked. raft v1.8.0 must not be
// asked a second time for a transfer to the same follower in the same term: it would wait for the
// answer to the first one for ever, and refuse every entry from then on, also in later terms.
type transfers struct {
	busy atomic.Int32 // transfers that are under way

	mu     sync.Mutex
	term   uint64                 // guarded by mu
	failed map[raft.ServerID]bool // guarded by mu: in that term
}

// begin reports whether a transfer may be requested, and records it as failed until it is
// known to have succeeded.
func (t *transfers) begin(term uint64, to raft.ServerID) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.term != term {
		t.term, t.failed = term, make(map[raft.ServerID]bool)
	}
	if t.failed[to] {
		return false
	}
	t.failed[to] = true
	return true
}

// hasFailed reports whether begin would refuse.
func (t *transfers) hasFailed(term uint64, to raft.ServerID) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.term == term && t.failed[to]
}

func errAskedBefore(to admin.Member) error {
	return fmt.Errorf("%w: %s did not take over when it was asked before, and is not asked again in this term", txn.ErrUnavailable, cmp.Or(to.Name, to.ID))
}

const (
	// preTransferEntryTimeout bounds the entry before a transfer: after it leadership is
	// transferred without the entry.
	preTransferEntryTimeout = time.Second
	// stepDownTimeout bounds the attempt of a stopping node to transfer leadership.
	stepDownTimeout = 3 * time.Second
)

// TransferTarget returns the voter that should lead next: among those that did not fail a transfer
// in this term and have been in contact recently, the one that is known to lack the fewest entries.
func (c *Cluster) TransferTarget() (admin.Member, bool) {
	c.transfers.mu.Lock()
	failed := c.transfers.failed
	if c.transfers.term != c.raft.CurrentTerm() {
		failed = nil
	}
	others := slices.DeleteFunc(c.Members(), func(m admin.Member) bool {
		return m.Self || !m.Voter || failed[raft.ServerID(m.ID)]
	})
	c.transfers.mu.Unlock()
	if len(others) == 0 {
		return admin.Member{}, false
	}
	return slices.MinFunc(others, func(a, b admin.Member) int {
		return cmp.Or(cmp.Compare(contactAge(a), contactAge(b)), cmp.Compare(a.LogLag, b.LogLag))
	}), true
}

// contactAge is the time since the last contact with a node, in units of three autopilot rounds.
func contactAge(m admin.Member) time.Duration {
	if m.LastContact < 0 {
		return math.MaxInt64
	}
	return time.Duration(m.LastContact) / (3 * autopilotInterval)
}

const transferOp = "cluster transfer-leader"

// TransferLeader makes another node lead: the most up-to-date one when node is empty. It returns
// when this node does not lead any more. That it was asked for is in the audit trail before it is
// tried, since afterwards this node cannot write; the entry also carries the tick, as that of
// transferTo.
func (c *Cluster) TransferLeader(ctx context.Context, node, by, reason string) error {
	m, err := c.findTransferTarget(node)
	if err != nil || m.Self {
		return err // it leads
	}
	if c.transfers.hasFailed(c.raft.CurrentTerm(), raft.ServerID(m.ID)) {
		return txn.Wrap(transferOp, txn.ID{}, errAskedBefore(m))
	}
	if err := c.recordAction(ctx, machine.RecordAction{Action: machine.ActionRequestTransfer, Subject: m.ID, By: by, Reason: reason}); err != nil {
		return &txn.Error{Op: transferOp, Err: txn.ErrUnavailable, Detail: fmt.Sprintf("nothing was transferred, as the audit trail could not be written: %v", err)}
	}
	if err := c.TransferNow(ctx, m); err != nil {
		return txn.Wrap(transferOp, txn.ID{}, err)
	}
	return nil
}

// transferAway makes the most up-to-date other node lead, since this one is to be removed.
func (c *Cluster) transferAway(ctx context.Context) error {
	m, err := c.findTransferTarget("")
	if err != nil {
		return err
	}
	if err := c.transferTo(ctx, m); err != nil {
		return txn.Wrap(transferOp, txn.ID{}, err)
	}
	return nil
}

// findTransferTarget returns the node that is to lead: this one, or a voter.
func (c *Cluster) findTransferTarget(node string) (admin.Member, error) {
	if err := c.requireCluster(transferOp); err != nil {
		return admin.Member{}, err
	}
	if err := c.conf.Node.RequireLeader(); err != nil {
		return admin.Member{}, txn.Wrap(transferOp, txn.ID{}, err)
	}
	if node == "" {
		m, ok := c.TransferTarget()
		if !ok {
			return admin.Member{}, &txn.Error{Op: transferOp, Err: txn.ErrUnavailable, Detail: "there is no other voter that could lead"}
		}
		return m, nil
	}
	m, err := c.findMember(transferOp, node)
	if err == nil && !m.Self && !m.Voter {
		err = &txn.Error{Op: transferOp, Err: txn.ErrInvalid, Detail: cmp.Or(m.Name, m.ID) + " is a learner, and cannot lead yet"}
	}
	return m, err
}

// StepDown transfers leadership, if another node can lead, within three seconds. Only a leader calls it.
func (c *Cluster) StepDown() {
	if c.Voters() < 2 {
		return
	}
	if m, ok := c.TransferTarget(); ok {
		ctx, cancel := context.WithTimeout(context.Background(), stepDownTimeout)
		defer cancel()
		if err := c.transferTo(ctx, m); err != nil {
			c.conf.Logger.Warn("cannot hand leadership over: the others will elect a leader", "error", err)
		}
	}
}

// transferTo requests a transfer from raft, at most once per term for each node. Before that it
// tries to write an entry with the tick: the target's clock continues from the last entry, which is
// old on an idle cluster, if the target was started since then.
func (c *Cluster) transferTo(ctx context.Context, to admin.Member) error {
	brief, cancel := context.WithTimeout(ctx, preTransferEntryTimeout)
	c.conf.Node.ProposeTick(brief)
	cancel()
	return c.TransferNow(ctx, to)
}

// TransferNow is transferTo without an entry before it. This node may lead without having taken
// over.
func (c *Cluster) TransferNow(ctx context.Context, to admin.Member) error {
	term := c.raft.CurrentTerm() // not the one in which it took over, since raft counts by its own
	if c.raft.State() != raft.Leader {
		return fmt.Errorf("%w: this node does not lead", txn.ErrUnavailable)
	}
	if !c.transfers.begin(term, raft.ServerID(to.ID)) {
		return errAskedBefore(to)
	}
	done := make(chan error, 1)
	// raft does not answer requests made while it stops, so the shutdown waits for
	// this one.
	if !c.conf.Node.Background(func() {
		c.transfers.busy.Add(1)
		defer c.transfers.busy.Add(-1)
		done <- c.raft.LeadershipTransferToServer(raft.ServerID(to.ID), raft.ServerAddress(c.configuredAddress(to.ID))).Error()
	}) {
		return errStopping
	}
	select {
	case err := <-done:
		if err != nil {
			return fmt.Errorf("%w: %w", txn.ErrUnavailable, err)
		}
		return nil
	case <-ctx.Done():
		return fmt.Errorf("%w: %w while leadership transfer in progress", txn.ErrUnavailable, context.Cause(ctx))
	}
}
