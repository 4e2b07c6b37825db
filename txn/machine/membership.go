package machine

import (
	"errors"
	"fmt"
	"slices"
)

// Limits of what is known of the cluster's nodes. Ids of removed ones are kept for ever, so
// that none is used again.
const (
	MaxMembers    = 100
	MaxRemoved    = 10_000
	MaxNodeID     = 64
	MaxMemberText = 512 // of the name, the URL and the version each
)

// membership is what the log knows of the cluster's nodes. Readers may keep its slices:
// members is replaced when it changes, and removed only grows.
type membership struct {
	members    []Member
	removed    appendOnly[string]
	removedIDs map[string]bool // the same as removed; for look-ups, never ranged over
}

func newMembership() membership { return membership{removedIDs: make(map[string]bool)} }

// appendOnly is a list whose elements are never changed and whose places are never used
// again, so that a reader may keep it.
type appendOnly[T any] []T

// all returns the list for a reader, whose appending would not overwrite the machine's.
func (g appendOnly[T]) all() []T { return slices.Clip(g) }

// Members returns what the nodes of the cluster have reported about themselves, in the order in
// which they joined. It must not be changed, and may be kept.
func (m *Machine) Members() []Member { return m.membership.members }

// Removed reports whether a node was removed for good.
func (m *Machine) Removed(node string) bool { return m.membership.removedIDs[node] }

func (c *Member) valid() bool {
	return validNodeID(c.Node) && len(c.Name) <= MaxMemberText && len(c.API) <= MaxMemberText && len(c.Version) <= MaxMemberText
}

func validNodeID(id string) bool { return id != "" && len(id) <= MaxNodeID }

// find returns the place of a member; -1 when there is none.
func (n *membership) find(node string) int {
	return slices.IndexFunc(n.members, func(c Member) bool { return c.Node == node })
}

func (m *Machine) setMember(c Member) Result {
	n := &m.membership
	i := n.find(c.Node)
	switch {
	case !c.valid():
		return Result{Code: Malformed}
	case n.removedIDs[c.Node]:
		return Result{Code: Conflict}
	case i >= 0 && n.members[i] == c:
		return Result{}
	case i < 0 && len(n.members) == MaxMembers:
		return Result{Code: TooMany}
	case i < 0:
		n.members = append(slices.Clip(n.members), c) // into a place of its own
		return Result{}
	}
	n.members = slices.Clone(n.members)
	n.members[i] = c
	return Result{}
}

// removeMember also takes the id of a node that has never reported anything: it may be known to
// raft alone.
func (m *Machine) removeMember(c RemoveMember) Result {
	n := &m.membership
	switch {
	case !validNodeID(c.Node) || !validAudit(c.By, c.Reason):
		return Result{Code: Malformed}
	case n.removedIDs[c.Node]:
		return Result{}
	case len(n.removed) == MaxRemoved:
		return Result{Code: TooMany}
	}
	if i := n.find(c.Node); i >= 0 {
		n.members = slices.Delete(slices.Clone(n.members), i, i+1)
	}
	n.removed = append(n.removed, c.Node)
	n.removedIDs[c.Node] = true
	m.appendAudit(AuditRecord{Action: ActionRemoveMember, Subject: c.Node, By: c.By, Reason: c.Reason})
	return Result{}
}

func (n *membership) restore(members []Member, removed []string) error {
	if len(members) > MaxMembers || len(removed) > MaxRemoved {
		return fmt.Errorf("%d members and %d removed nodes; at most %d and %d", len(members), len(removed), MaxMembers, MaxRemoved)
	}
	for _, id := range removed {
		if !validNodeID(id) || n.removedIDs[id] {
			return fmt.Errorf("removed node %.64q twice, or no id", id)
		}
		n.removedIDs[id] = true
	}
	for i := range members {
		c := &members[i]
		if !c.valid() || n.removedIDs[c.Node] || n.find(c.Node) >= 0 {
			return fmt.Errorf("member %.64q twice, removed, or not as members are", c.Node)
		}
		n.members = append(n.members, *c)
	}
	n.removed = slices.Clone(removed)
	return nil
}

// check verifies that the list and the set of removed nodes are the same.
func (n *membership) check() error {
	if len(n.removed) != len(n.removedIDs) {
		return fmt.Errorf("%d nodes removed, %d in the set of them", len(n.removed), len(n.removedIDs))
	}
	fresh := newMembership()
	if err := fresh.restore(n.members, n.removed); err != nil {
		return err
	}
	for _, id := range n.removed {
		if !n.removedIDs[id] {
			return errors.New("a removed node is not in the set of them: " + id)
		}
	}
	return nil
}
