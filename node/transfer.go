package node

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

// preTransferEntryTimeout bounds the entry before a transfer: after it leadership is transferred
// without the entry.
const preTransferEntryTimeout = time.Second

// transferTarget returns the voter that should lead next: among those that did not fail a transfer
// in this term and have been in contact recently, the one that is known to lack the fewest entries.
func (n *Node) transferTarget() (admin.Member, bool) {
	n.transfers.mu.Lock()
	failed := n.transfers.failed
	if n.transfers.term != n.raft.CurrentTerm() {
		failed = nil
	}
	others := slices.DeleteFunc(n.Members(), func(m admin.Member) bool {
		return m.Self || !m.Voter || failed[raft.ServerID(m.ID)]
	})
	n.transfers.mu.Unlock()
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

// TransferLeader makes another node lead: the most up-to-date one when node is empty. It returns
// when this node does not lead any more.
func (n *Node) TransferLeader(ctx context.Context, node string) error {
	const op = "cluster transfer-leader"
	if err := n.requireCluster(op); err != nil {
		return err
	}
	if err := n.requireLeader(); err != nil {
		return txn.Wrap(op, txn.ID{}, err)
	}
	var m admin.Member
	if node == "" {
		var ok bool
		if m, ok = n.transferTarget(); !ok {
			return &txn.Error{Op: op, Err: txn.ErrUnavailable, Detail: "there is no other voter that could lead"}
		}
	} else {
		var err error
		if m, err = n.findMember(op, node); err != nil {
			return err
		}
	}
	switch {
	case m.Self:
		return nil // it leads
	case !m.Voter:
		return &txn.Error{Op: op, Err: txn.ErrInvalid, Detail: cmp.Or(m.Name, m.ID) + " is a learner, and cannot lead yet"}
	}
	if err := n.transferTo(ctx, m); err != nil {
		return txn.Wrap(op, txn.ID{}, err)
	}
	return nil
}

// transferTo requests a transfer from raft, at most once per term for each node.
func (n *Node) transferTo(ctx context.Context, to admin.Member) error {
	// The target's clock continues from the last entry, which is old on an idle cluster, if the
	// target was started since then. This entry is refused, changes nothing, and carries the tick.
	// Where entries do not arrive it would only be one more.
	if n.stalled.Load() == nil {
		brief, cancel := context.WithTimeout(ctx, preTransferEntryTimeout)
		_, _ = n.proposals.ProposeInTerm(brief, n.term.Load(), machine.SetMember{}, nil)
		cancel()
	}
	return n.transferNow(ctx, to)
}

// transferNow is transferTo without an entry before it. This node may lead without having taken
// over.
func (n *Node) transferNow(ctx context.Context, to admin.Member) error {
	term := n.raft.CurrentTerm() // not the one in which it took over, since raft counts by its own
	if n.raft.State() != raft.Leader {
		return fmt.Errorf("%w: this node does not lead", txn.ErrUnavailable)
	}
	if !n.transfers.begin(term, raft.ServerID(to.ID)) {
		return fmt.Errorf("%w: %s did not take over when it was asked before, and is not asked again in this term", txn.ErrUnavailable, cmp.Or(to.Name, to.ID))
	}
	done := make(chan error, 1)
	// raft does not answer requests made while it stops, so the shutdown waits for
	// this one.
	if !n.background(func() {
		n.transfers.busy.Add(1)
		defer n.transfers.busy.Add(-1)
		done <- n.raft.LeadershipTransferToServer(raft.ServerID(to.ID), raft.ServerAddress(n.configuredAddress(to.ID))).Error()
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

// background runs f in a goroutine that the shutdown waits for. It returns false when the shutdown
// has begun.
func (n *Node) background(f func()) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	select {
	case <-n.closing:
		return false
	default:
		n.done.Go(f)
		return true
	}
}
