package node

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/hashicorp/raft"

	"github.com/txmgr/txmgr/node/peer"
	"github.com/txmgr/txmgr/txn"
	"github.com/txmgr/txmgr/txn/admin"
	"github.com/txmgr/txmgr/txn/machine"
)

// autopilotInterval is how often a leader polls the other nodes.
const autopilotInterval = time.Second

// maxTrailingLogs is how many entries behind a learner may be when it becomes a voter.
const maxTrailingLogs = 256

// autopilot is what a leader knows about the other nodes beyond the log: the time of the last
// contact, and how far they have applied the log.
type autopilot struct {
	mu        sync.Mutex
	followers map[string]followerProgress // guarded by mu: by node id; empty when not leading
}

type followerProgress struct {
	at      time.Time
	applied uint64
}

// describe fills in a member's last contact and lag, as far as known.
func (s *autopilot) describe(m *admin.Member, commit uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.followers) == 0 {
		return
	}
	h, ok := s.followers[m.ID]
	switch {
	case m.Self:
		m.LastContact, m.LogLag = 0, 0
	case ok:
		m.LastContact = txn.Duration(time.Since(h.at).Round(time.Millisecond))
		m.LogLag = int64(commit - min(h.applied, commit))
	}
}

func (s *autopilot) record(id string, applied uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.followers == nil {
		s.followers = make(map[string]followerProgress)
	}
	s.followers[id] = followerProgress{time.Now(), applied}
}

func (s *autopilot) drop(id string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.followers, id)
}

func (s *autopilot) reset() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.followers = nil
}

// runAutopilot runs while this node leads: it polls the other nodes, records the name, API
// address and version that they report, and promotes learners that have caught up.
func (n *Node) runAutopilot(ctx context.Context) {
	defer n.autopilot.reset()
	ticker := time.NewTicker(autopilotInterval)
	defer ticker.Stop()
	n.autopilot.record(string(n.env.id), n.raft.AppliedIndex())
	if err := n.upsertMember(ctx, n.identity()); err != nil {
		n.logger.Warn("this node is not in the list of members yet", "error", err)
	}
	for {
		n.reconcileMembers(ctx)
		select {
		case <-ticker.C:
			n.pollMembers(ctx)
		case <-ctx.Done():
			return
		}
	}
}

// pollMembers asks every other node once, all at the same time: one that hangs delays no other.
func (n *Node) pollMembers(ctx context.Context) {
	asking, cancel := context.WithTimeout(ctx, peerCallTimeout)
	defer cancel()
	var wg sync.WaitGroup
	for _, s := range n.servers() {
		if s.ID == n.env.id {
			continue
		}
		wg.Go(func() {
			who, err := n.peerServer.Hello(asking, string(s.Address))
			if err != nil || who.ID != string(s.ID) {
				return
			}
			n.autopilot.record(who.ID, who.Applied)
			n.addressOverrides.record(who.ID, string(s.Address), who.RaftAddr)
			if err := n.upsertMember(ctx, who); err != nil && ctx.Err() == nil {
				n.logger.Warn("failed to update member metadata", "node", who.ID, "error", err)
			}
			// A node with an empty log may still take the log of another cluster, and the
			// entries that it has applied may be another cluster's.
			if s.Suffrage != raft.Voter && !who.Empty && who.Cluster == n.clusterID() && who.Applied+maxTrailingLogs >= n.raft.CommitIndex() {
				n.promoteLearner(s)
			}
		})
	}
	wg.Wait()
}

// upsertMember writes what a node reports about itself into the log, if it has changed.
func (n *Node) upsertMember(ctx context.Context, who peer.Identity) error {
	k := machine.Member{Node: who.ID, Name: who.Name, API: who.API, Version: who.Version}
	if n.memberRecord(who.ID) == k {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, configChangeTimeout)
	defer cancel()
	res, err := n.proposals.Propose(ctx, machine.SetMember{Member: k})
	if err == nil && res.Code != machine.OK {
		err = res.ToError("cluster join", txn.ID{})
	}
	return err
}

// promoteLearner makes a learner a voter, unless a change of the membership is in progress: it
// may be removing that learner.
func (n *Node) promoteLearner(s raft.Server) {
	if !n.membershipMu.TryLock() {
		return // the next round comes soon
	}
	defer n.membershipMu.Unlock()
	if !slices.Contains(n.servers(), s) {
		return
	}
	if err := n.raft.AddVoter(s.ID, s.Address, 0, configChangeTimeout).Error(); err != nil {
		n.logger.Warn("a learner has caught up and cannot be made a voter", "node", s.ID, "error", err)
		return
	}
	n.logger.Info("a learner has caught up: it votes now", "node", s.ID)
}

// updateAddress changes a node's address in raft's configuration.
func (n *Node) updateAddress(id raft.ServerID, address string) error {
	for _, s := range n.servers() {
		if s.ID != id || string(s.Address) == address {
			continue
		}
		f := n.raft.AddNonvoter
		if s.Suffrage == raft.Voter {
			f = n.raft.AddVoter
		}
		if err := f(id, raft.ServerAddress(address), 0, configChangeTimeout).Error(); err != nil {
			return configChangeUnknown(err)
		}
		n.logger.Info("a node has another address", "node", id, "address", address)
	}
	return nil
}

// reconcileMembers completes earlier changes that were interrupted between raft's configuration
// and the log: this node's own address, and ids that raft does not know any more and that have
// no tombstone yet.
func (n *Node) reconcileMembers(ctx context.Context) {
	if !n.membershipMu.TryLock() {
		return // a change is in progress
	}
	defer n.membershipMu.Unlock()
	if err := n.updateAddress(n.env.id, n.peerServer.Addr()); err != nil && ctx.Err() == nil {
		n.logger.Warn("failed to update this node's address", "error", err)
	}
	// The members first: each of them was in raft's configuration before.
	var members []machine.Member
	n.fsm.View(func(m *machine.Machine) { members = m.Members() })
	servers := n.servers()
	for _, k := range members {
		if len(servers) == 0 || k.Node == string(n.env.id) || slices.ContainsFunc(servers, func(s raft.Server) bool { return string(s.ID) == k.Node }) {
			continue
		}
		if err := n.tombstoneID(ctx, k.Node, "txmgr", "removed earlier; the tombstone was missing"); err != nil && ctx.Err() == nil {
			n.logger.Warn("failed to tombstone removed node", "node", k.Node, "error", err)
		}
	}
}
