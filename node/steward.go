package node

import (
	"context"
	"fmt"
	"slices"
	"strings"
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
			if err := n.introduce(ctx, who); err != nil && ctx.Err() == nil {
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

// accept takes a node into the cluster as a learner, or notes its new address. Who
// has lost its disk comes as a new node at an old address, and replaces the one that
// was there.
func (n *Node) accept(ctx context.Context, who peer.Identity) error {
	n.founding.Lock() // one at a time
	defer n.founding.Unlock()
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("%w: %w", txn.ErrUnavailable, err)
	}
	if err := n.welcome(who); err != nil {
		return err
	}
	var at, known *raft.Server // at its address, and itself
	for _, s := range n.servers() {
		switch {
		case string(s.ID) == who.ID:
			known = &s
		case string(s.Address) == who.Raft:
			at = &s
		}
	}
	switch {
	case known == nil && !who.Fresh:
		return fmt.Errorf("%w: node %s has a log, and is no member of this cluster: it was removed, or belongs to another; empty its data directory to add it as a new node", txn.ErrConflict, who.ID)
	case known == nil && who.Founder != "":
		return fmt.Errorf("%w: node %s has consented to found a cluster with others, led by node %s: empty its data directory to add it to another one", txn.ErrConflict, who.ID, who.Founder)
	case known == nil || string(known.Address) != who.Raft:
		if err := n.meet(ctx, who, known); err != nil {
			return err
		}
	}
	if at != nil {
		n.logger.Warn("a node with an empty disk takes the place of the one at its address", "old", at.ID, "new", who.ID, "address", who.Raft)
		if err := n.expel(ctx, *at, "txmgr", "its address now belongs to "+who.ID+", which has an empty disk"); err != nil {
			return err
		}
	}
	if known != nil {
		if err := n.moveTo(known.ID, who.Raft); err != nil {
			return err
		}
		return n.introduce(ctx, who)
	}
	if err := n.raft.AddNonvoter(raft.ServerID(who.ID), raft.ServerAddress(who.Raft), 0, changeTimeout).Error(); err != nil {
		return unsettled(err)
	}
	n.logger.Info("a node has joined as a learner", "node", who.ID, "name", who.Name, "address", who.Raft)
	return n.introduce(ctx, who)
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

// meet makes sure that a node is at the address that it says is its own, before it gets the
// place of the one that was there, and not at its old one any more: a copy of its data
// directory would be.
func (n *Node) meet(ctx context.Context, who peer.Identity, known *raft.Server) error {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	there, err := n.port.Hello(ctx, who.Raft)
	switch {
	case err != nil:
		return fmt.Errorf("%w: node %s says that others reach it at %s, and this one does not: %w", txn.ErrUnavailable, who.ID, who.Raft, err)
	case there.ID != who.ID:
		return fmt.Errorf("%w: node %s says that it is at %s, and node %s is there: does it advertise a wrong address?", txn.ErrConflict, who.ID, who.Raft, there.ID)
	case known == nil:
		return nil
	}
	if twin, err := n.port.Hello(ctx, string(known.Address)); err == nil && twin.ID == who.ID && twin.Raft != who.Raft {
		return fmt.Errorf("%w: node %s runs at %s and at %s: was a data directory copied? Only one of the two may run", txn.ErrConflict, who.ID, known.Address, who.Raft)
	}
	return nil
}

// expel takes a node out of raft's configuration and strikes its id for ever. The caller
// holds founding.
func (n *Node) expel(ctx context.Context, s raft.Server, by, reason string) error {
	if s.Suffrage == raft.Voter {
		if err := n.spares(ctx, s.ID); err != nil {
			return err
		}
	}
	if err := n.raft.RemoveServer(s.ID, 0, changeTimeout).Error(); err != nil {
		return unsettled(err)
	}
	n.steward.drop(string(s.ID))
	return n.strike(ctx, string(s.ID), by, reason)
}

// strike notes in the log that an id is never used again.
func (n *Node) strike(ctx context.Context, id, by, reason string) error {
	ctx, cancel := context.WithTimeout(ctx, changeTimeout)
	defer cancel()
	res, err := n.batcher.propose(ctx, machine.RemoveMember{Node: id, By: by, Reason: reason})
	if err == nil && res.Code != machine.OK {
		err = res.Refusal("cluster remove", txn.ID{})
	}
	return err
}

// spares refuses to take a voter out when those that are left could not decide anything,
// because too many of them do not answer. raft would do it, and wait for them for ever.
func (n *Node) spares(ctx context.Context, id raft.ServerID) error {
	if n.port == nil {
		return nil // the simulation's business
	}
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	var wg sync.WaitGroup
	var mu sync.Mutex
	voters, silent := 0, []string(nil) // silent: guarded by mu
	for _, s := range n.servers() {
		if s.Suffrage != raft.Voter || s.ID == id {
			continue
		}
		voters++
		if s.ID == n.storage.id {
			continue
		}
		wg.Go(func() {
			if who, err := n.port.Hello(ctx, string(s.Address)); err == nil && who.ID == string(s.ID) {
				return
			}
			mu.Lock()
			defer mu.Unlock()
			silent = append(silent, orElse(n.member(string(s.ID)).Name, string(s.ID)))
		})
	}
	wg.Wait()
	if 2*(voters-len(silent)) > voters {
		return nil
	}
	slices.Sort(silent)
	return fmt.Errorf("%w: without node %s, %d of the %d voters that are left would not answer (%s), and nothing could be decided any more: bring them back, or remove them first", txn.ErrConflict, id, len(silent), voters, strings.Join(silent, ", "))
}

func (n *Node) removed(id string) (gone bool) {
	n.fsm.View(func(m *machine.Machine) { gone = m.Removed(id) })
	return gone
}
