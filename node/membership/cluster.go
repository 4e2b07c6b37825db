package membership

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"

	"github.com/hashicorp/raft"

	"github.com/txmgr/txmgr/node/peer"
	"github.com/txmgr/txmgr/node/proposal"
	"github.com/txmgr/txmgr/txn"
	"github.com/txmgr/txmgr/txn/machine"
)

// Cluster is the cluster as one of its nodes sees it, and changes it. Make one with [New]. Other
// nodes reach this one from Listen on; nothing but that may be called before Start.
type Cluster struct {
	conf       Config
	id         raft.ServerID   // this node's
	raft       *raft.Raft      // set by Start
	proposals  *proposal.Queue // set by Start
	peerServer *peer.Server    // set by Listen; nil for a single node, and in the simulation

	autopilot        autopilot
	addressOverrides addressOverrides
	transfers        transfers

	mu              sync.Mutex                      // held during a change of the membership
	running         atomic.Bool                     // everything above is initialized
	removed         atomic.Bool                     // this node has left its cluster, or was removed
	bootstrapStatus atomic.Pointer[string]          // what the node waits for until it belongs to a cluster
	savedIdentity   atomic.Pointer[clusterIdentity] // as saved on disk
	consentedPlan   atomic.Pointer[bootstrapPlan]   // the plan that it consented to, as saved on disk
}

// Config is what a [Cluster] needs of its node. Join has a default.
type Config struct {
	// Self is what the node reports about itself and does not change: ID, Name, API, Version,
	// Expect and Settings. Required.
	Self peer.Identity
	// Join are the addresses of other nodes. Defaults to none.
	Join []string
	// SingleNode: there are no other nodes, and never will be as long as this process runs.
	SingleNode bool
	// Log keeps what the node must not forget. Required.
	Log raft.StableStore
	// View reads the state machine. Required.
	View func(func(*machine.Machine))
	// Node is asked whether it leads, and runs goroutines. Required.
	Node Node
	// Context ends when the node is closed. Required.
	Context context.Context
	// Logger receives the log lines for operators. Required.
	Logger *slog.Logger
}

// Node is the leadership of a node, and its goroutines.
type Node interface {
	// IsLeader reports whether the node has taken over in raft's current term.
	IsLeader() bool
	// RequireLeader returns why the node cannot decide; nil when it leads.
	RequireLeader() error
	// ProposeTick tries to write an entry that changes nothing, and carries the tick.
	ProposeTick(ctx context.Context)
	// Background runs f in a goroutine that the shutdown waits for. It returns false when the
	// shutdown has begun.
	Background(f func()) bool
}

// MaxNodes is how many nodes a cluster may have. More than seven voters make every decision
// slower and none safer.
const MaxNodes = 9

var errStopping = fmt.Errorf("%w: the coordinator is stopping", txn.ErrUnavailable)

// New returns the cluster of a node that is about to start raft.
func New(conf Config) *Cluster {
	c := &Cluster{conf: conf, id: raft.ServerID(conf.Self.ID)}
	c.addressOverrides.configured = c.configuredAddress
	return c
}

// Start is called when raft runs.
func (c *Cluster) Start(r *raft.Raft, proposals *proposal.Queue) {
	c.raft, c.proposals = r, proposals
	c.running.Store(true)
}

// Run makes this node a member of a cluster if it is not one yet, and maintains its membership,
// until the node is closed. It needs Listen, as RunAutopilot does.
func (c *Cluster) Run() {
	var wg sync.WaitGroup
	wg.Go(c.joinOrBootstrap)
	c.runMembershipLoop()
	wg.Wait()
}

// Close closes the port for other nodes.
func (c *Cluster) Close() error {
	if c.peerServer == nil {
		return nil
	}
	return c.peerServer.Close()
}

// WaitsFor is what this node waits for until it belongs to a cluster; empty when for nothing.
func (c *Cluster) WaitsFor() string {
	if w := c.bootstrapStatus.Load(); w != nil {
		return *w
	}
	return ""
}

// Transferring reports whether a transfer of leadership is under way.
func (c *Cluster) Transferring() bool { return c.transfers.busy.Load() > 0 }
