package node

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/hashicorp/raft"

	"github.com/txmgr/txmgr/node/peer"
	"github.com/txmgr/txmgr/txn"
	"github.com/txmgr/txmgr/txn/machine"
)

// stewardEvery is how often a leader asks the others how they are.
const stewardEvery = time.Second

// nearlyThere is how many entries a learner may lack to become a voter.
const nearlyThere = 256

// steward is what a leader knows of the other nodes beyond the log: when it heard of
// them last, and how far they have got.
type steward struct {
	mu    sync.Mutex
	heard map[string]heard // guarded by mu: by node id; empty when not leading
}

type heard struct {
	at      time.Time
	applied uint64
}

// describe adds what is known of a member.
func (s *steward) describe(m *txn.Member, commit uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.heard) == 0 {
		return
	}
	h, ok := s.heard[m.ID]
	switch {
	case m.Self:
		m.Heard, m.Behind = 0, 0
	case ok:
		m.Heard = txn.Duration(time.Since(h.at).Round(time.Millisecond))
		m.Behind = int64(commit - min(h.applied, commit))
	}
}

func (s *steward) note(id string, applied uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.heard == nil {
		s.heard = make(map[string]heard)
	}
	s.heard[id] = heard{time.Now(), applied}
}

func (s *steward) drop(id string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.heard, id)
}

func (s *steward) clear() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.heard = nil
}

// attend runs while this node leads: it asks the other nodes how they are, notes what
// they say of themselves, and makes voters of learners that have caught up.
func (n *Node) attend(ctx context.Context) {
	defer n.steward.clear()
	ticker := time.NewTicker(stewardEvery)
	defer ticker.Stop()
	n.steward.note(string(n.storage.id), n.raft.AppliedIndex())
	if err := n.introduce(ctx, n.identity()); err != nil {
		n.logger.Warn("this node is not in the list of members yet", "error", err)
	}
	for {
		n.tidy(ctx)
		select {
		case <-ticker.C:
			n.round(ctx)
		case <-ctx.Done():
			return
		}
	}
}

// round asks every other node once. One that hangs holds up nobody but itself.
func (n *Node) round(ctx context.Context) {
	asking, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	var wg sync.WaitGroup
	for _, s := range n.servers() {
		if s.ID == n.storage.id {
			continue
		}
		wg.Go(func() {
			who, err := n.port.Hello(asking, string(s.Address))
			if err != nil || who.ID != string(s.ID) {
				return
			}
			n.steward.note(who.ID, who.Applied)
			n.moves.note(who.ID, string(s.Address), who.Raft)
			if err := n.introduce(ctx, who); err != nil && ctx.Err() == nil {
				n.logger.Warn("cannot note what a node says of itself", "node", who.ID, "error", err)
			}
			// With an empty log it may yet take that of another cluster; and what it has
			// applied may be another's.
			if s.Suffrage != raft.Voter && !who.Fresh && who.Cluster == n.cluster() && who.Applied+nearlyThere >= n.raft.CommitIndex() {
				n.promote(s)
			}
		})
	}
	wg.Wait()
}

// introduce writes what a node says of itself into the log, if it is news.
func (n *Node) introduce(ctx context.Context, who peer.Identity) error {
	k := machine.Member{Node: who.ID, Name: who.Name, API: who.API, Version: who.Version}
	if n.member(who.ID) == k {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, changeTimeout)
	defer cancel()
	res, err := n.batcher.propose(ctx, machine.SetMember{Member: k})
	if err == nil && res.Code != machine.OK {
		err = res.Refusal("cluster join", txn.ID{})
	}
	return err
}

// promote makes a voter of a learner, unless who takes part is being changed: it may be
// on its way out.
func (n *Node) promote(s raft.Server) {
	if !n.founding.TryLock() {
		return // the next round comes soon
	}
	defer n.founding.Unlock()
	if !slices.Contains(n.servers(), s) {
		return
	}
	if err := n.raft.AddVoter(s.ID, s.Address, 0, changeTimeout).Error(); err != nil {
		n.logger.Warn("a learner has caught up and cannot be made a voter", "node", s.ID, "error", err)
		return
	}
	n.logger.Info("a learner has caught up: it votes now", "node", s.ID)
}

// moveTo notes a node's new address.
func (n *Node) moveTo(id raft.ServerID, address string) error {
	for _, s := range n.servers() {
		if s.ID != id || string(s.Address) == address {
			continue
		}
		f := n.raft.AddNonvoter
		if s.Suffrage == raft.Voter {
			f = n.raft.AddVoter
		}
		if err := f(id, raft.ServerAddress(address), 0, changeTimeout).Error(); err != nil {
			return unsettled(err)
		}
		n.logger.Info("a node has another address", "node", id, "address", address)
	}
	return nil
}

// tidy brings raft's configuration and the log together where an earlier change was left
// half done: this node's own address, and ids that are not struck although raft does not
// know them any more.
func (n *Node) tidy(ctx context.Context) {
	if !n.founding.TryLock() {
		return // a change is under way
	}
	defer n.founding.Unlock()
	if err := n.moveTo(n.storage.id, n.port.Addr()); err != nil && ctx.Err() == nil {
		n.logger.Warn("cannot note this node's new address", "error", err)
	}
	// The members first: each of them was in raft's configuration before.
	var members []machine.Member
	n.fsm.View(func(m *machine.Machine) { members = m.Members() })
	servers := n.servers()
	for _, k := range members {
		if len(servers) == 0 || k.Node == string(n.storage.id) || slices.ContainsFunc(servers, func(s raft.Server) bool { return string(s.ID) == k.Node }) {
			continue
		}
		if err := n.strike(ctx, k.Node, "txmgr", "it was removed before, and the log did not say so"); err != nil && ctx.Err() == nil {
			n.logger.Warn("cannot strike the id of a node that was removed", "node", k.Node, "error", err)
		}
	}
}

func (n *Node) removed(id string) (gone bool) {
	n.fsm.View(func(m *machine.Machine) { gone = m.Removed(id) })
	return gone
}
