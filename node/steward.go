package node

import (
	"context"
	"fmt"
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
func (n *Node) attend(stop <-chan struct{}) {
	defer n.steward.clear()
	ticker := time.NewTicker(stewardEvery)
	defer ticker.Stop()
	n.steward.note(string(n.storage.id), n.raft.AppliedIndex())
	if err := n.introduce(n.identity()); err != nil {
		n.logger.Warn("this node is not in the list of members yet", "error", err)
	}
	n.moveTo(n.storage.id, n.port.Addr())
	for {
		select {
		case <-ticker.C:
			n.round()
		case <-stop:
			return
		}
	}
}

// round asks every other node once. One that hangs holds up nobody but itself.
func (n *Node) round() {
	ctx, cancel := context.WithTimeout(context.Background(), askTimeout)
	defer cancel()
	var wg sync.WaitGroup
	for _, s := range n.servers() {
		if s.ID == n.storage.id {
			continue
		}
		wg.Go(func() {
			who, err := n.port.Hello(ctx, string(s.Address))
			if err != nil || who.ID != string(s.ID) {
				return
			}
			n.steward.note(who.ID, who.Applied)
			if err := n.introduce(who); err != nil {
				n.logger.Warn("cannot note what a node says of itself", "node", who.ID, "error", err)
			}
			if s.Suffrage != raft.Voter && who.Applied+nearlyThere >= n.raft.CommitIndex() {
				n.promote(s)
			}
		})
	}
	wg.Wait()
}

// introduce writes what a node says of itself into the log, if it is news.
func (n *Node) introduce(who peer.Identity) error {
	k := machine.Member{Node: who.ID, Name: who.Name, API: who.API, Version: who.Version}
	if n.member(who.ID) == k {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), changeTimeout)
	defer cancel()
	res, err := n.batcher.propose(ctx, machine.SetMember{Member: k})
	if err == nil && res.Code != machine.OK {
		err = res.Refusal("cluster join", txn.ID{})
	}
	return err
}

func (n *Node) promote(s raft.Server) {
	if err := n.raft.AddVoter(s.ID, s.Address, 0, changeTimeout).Error(); err != nil {
		n.logger.Warn("a learner has caught up and cannot be made a voter", "node", s.ID, "error", err)
		return
	}
	n.logger.Info("a learner has caught up: it votes now", "node", s.ID)
}

// moveTo notes a node's new address.
func (n *Node) moveTo(id raft.ServerID, address string) {
	for _, s := range n.servers() {
		if s.ID != id || string(s.Address) == address {
			continue
		}
		f := n.raft.AddNonvoter
		if s.Suffrage == raft.Voter {
			f = n.raft.AddVoter
		}
		if err := f(id, raft.ServerAddress(address), 0, changeTimeout).Error(); err != nil {
			n.logger.Warn("cannot note a node's new address", "node", id, "address", address, "error", err)
		}
	}
}

// accept takes a node into the cluster as a learner, or notes its new address. Who
// has lost its disk comes as a new node at an old address, and replaces the one that
// was there.
func (n *Node) accept(who peer.Identity) error {
	n.founding.Lock() // one at a time
	defer n.founding.Unlock()
	if err := n.welcome(who); err != nil {
		return err
	}
	known := false
	for _, s := range n.servers() {
		switch {
		case string(s.ID) == who.ID:
			known = true
		case string(s.Address) == who.Raft:
			n.logger.Warn("a node with an empty disk takes the place of the one at its address", "old", s.ID, "new", who.ID, "address", who.Raft)
			if err := n.expel(string(s.ID), "its address now belongs to "+who.ID+", which has an empty disk"); err != nil {
				return err
			}
		}
	}
	if known {
		n.moveTo(raft.ServerID(who.ID), who.Raft)
	} else {
		if !who.Fresh {
			return fmt.Errorf("%w: node %s has a log, and is no member of this cluster: it was removed, or belongs to another; empty its data directory to add it as a new node", txn.ErrConflict, who.ID)
		}
		if err := n.raft.AddNonvoter(raft.ServerID(who.ID), raft.ServerAddress(who.Raft), 0, changeTimeout).Error(); err != nil {
			return unsettled(err)
		}
		n.logger.Info("a node has joined as a learner", "node", who.ID, "name", who.Name, "address", who.Raft)
	}
	return n.introduce(who)
}

// welcome refuses nodes that cannot become members.
func (n *Node) welcome(who peer.Identity) error {
	me := n.identity()
	switch {
	case who.Raft == "":
		return fmt.Errorf("%w: node %s does not say at which address it is reached", txn.ErrInvalid, who.ID)
	case n.removed(who.ID):
		return fmt.Errorf("%w: node %s was removed from this cluster, and its id is never used again: empty its data directory to add it as a new node", txn.ErrDenied, who.ID)
	case who.Cluster != "" && (who.Cluster != me.Cluster || who.Incarnation != me.Incarnation):
		return fmt.Errorf("%w: node %s belongs to cluster %s, incarnation %d; this is %s, incarnation %d", txn.ErrConflict, who.ID, who.Cluster, who.Incarnation, me.Cluster, me.Incarnation)
	}
	return nil
}

// expel takes a node out of raft's configuration and strikes its id for ever.
func (n *Node) expel(id, reason string) error {
	if err := n.raft.RemoveServer(raft.ServerID(id), 0, changeTimeout).Error(); err != nil {
		return unsettled(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), changeTimeout)
	defer cancel()
	res, err := n.batcher.propose(ctx, machine.RemoveMember{Node: id, By: "txmgr", Reason: reason})
	if err == nil && res.Code != machine.OK {
		err = res.Refusal("cluster remove", txn.ID{})
	}
	n.steward.drop(id)
	return err
}

func (n *Node) removed(id string) (gone bool) {
	n.fsm.View(func(m *machine.Machine) { gone = m.Removed(id) })
	return gone
}
