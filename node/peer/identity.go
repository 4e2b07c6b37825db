package peer

import (
	"context"
	"fmt"
	"strings"
	"unicode"

	"github.com/txmgr/txmgr/txn"
)

// Identity is what a node reports of itself. A handshake carries only ID, Cluster and
// Incarnation.
type Identity struct {
	// ID was created with the data directory, and is never used again.
	ID string `json:"id"`
	// Name is for operators, Version the release that the node runs.
	Name    string `json:"name,omitempty"`
	Version string `json:"version,omitempty"`
	// RaftAddr is the address of its port for other nodes, API the URL for clients.
	RaftAddr string `json:"raft,omitempty"`
	API      string `json:"api,omitempty"`
	// Cluster is the id of its cluster, empty as long as it knows none; Incarnation
	// counts how often the cluster was restored.
	Cluster     string `json:"cluster,omitempty"`
	Incarnation uint64 `json:"incarnation,omitempty"`
	// Empty reports that its log is empty, Expect is the number of nodes with which it expects to
	// form a cluster, Settings what that cluster would be bootstrapped with.
	Empty    bool   `json:"fresh,omitempty"`
	Expect   int    `json:"expect,omitempty"`
	Settings string `json:"settings,omitempty"`
	// Bootstrapper is the id of the node to whose bootstrap of a cluster it has consented,
	// empty as long as it has not.
	Bootstrapper string `json:"founder,omitempty"`
	// Leader is the raft address of the leader that it knows; IsLeader reports that it
	// leads itself.
	Leader   string `json:"leader,omitempty"`
	IsLeader bool   `json:"leads,omitempty"`
	// Applied is the index of the last log entry that it has applied.
	Applied uint64 `json:"applied,omitempty"`
	// Removed reports that it knows that it was removed from its cluster.
	Removed bool `json:"removed,omitempty"`
}

// The longest texts in an Identity, in bytes.
const (
	maxID   = 64
	maxText = 512
)

func (i Identity) check() error {
	if i.ID == "" || len(i.ID) > maxID {
		return fmt.Errorf("%w: a node's id has %d bytes; want 1 to %d", txn.ErrInvalid, len(i.ID), maxID)
	}
	for _, s := range []string{i.ID, i.Name, i.Version, i.RaftAddr, i.API, i.Cluster, i.Settings, i.Bootstrapper, i.Leader} {
		if len(s) > maxText {
			return fmt.Errorf("%w: %d bytes of text in what node %q says of itself; want at most %d", txn.ErrInvalid, len(s), i.ID, maxText)
		}
		if strings.ContainsFunc(s, unicode.IsControl) {
			return fmt.Errorf("%w: a control character in what node %q says of itself: %.100q", txn.ErrInvalid, i.ID, s)
		}
	}
	return nil
}

// handshakeIdentity is the part of the identity that a handshake carries.
func (i Identity) handshakeIdentity() Identity {
	return Identity{ID: i.ID, Cluster: i.Cluster, Incarnation: i.Incarnation}
}

// checkSameCluster is the check that each side makes of the other.
func (i Identity) checkSameCluster(other Identity) error {
	switch {
	case i.Cluster == "" || other.Cluster == "":
		return nil
	case i.Cluster != other.Cluster:
		return fmt.Errorf("%w: node %s is of cluster %s, node %s of %s", ErrClusterMismatch, i.ID, i.Cluster, other.ID, other.Cluster)
	case i.Incarnation != other.Incarnation:
		return fmt.Errorf("%w: node %s is of incarnation %d of cluster %s, node %s of %d: one of them was restored from a backup without the other",
			ErrClusterMismatch, i.ID, i.Incarnation, i.Cluster, other.ID, other.Incarnation)
	}
	return nil
}

// Handler serves the requests of other nodes. A node that does not lead returns
// [NotLeaderError]. ctx ends when the caller has disconnected, or after thirty seconds. The id of
// the Identity is that of the handshake, so it has passed Config.Admit.
type Handler interface {
	// Join adds the node to the cluster, or records its new address.
	Join(ctx context.Context, node Identity) error
	// Leave removes the node from the cluster, permanently. by and reason are what its operator
	// said, or empty.
	Leave(ctx context.Context, node Identity, by, reason string) error
	// ConsentToBootstrap consents that the node bootstraps a cluster of the members, which are
	// sorted by id, or refuses.
	ConsentToBootstrap(ctx context.Context, node Identity, members []Member) error
}

// maxMembers is how many nodes can bootstrap a cluster together.
const maxMembers = 64

// Member is a node that is to form a new cluster with others: its id, and its address for
// them.
type Member struct {
	ID       string `json:"id"`
	RaftAddr string `json:"raft"`
}

func checkMembers(members []Member) error {
	if len(members) == 0 || len(members) > maxMembers {
		return fmt.Errorf("%w: %d nodes to bootstrap a cluster; want 1 to %d", txn.ErrInvalid, len(members), maxMembers)
	}
	for _, m := range members {
		if err := (Identity{ID: m.ID, RaftAddr: m.RaftAddr}).check(); err != nil {
			return err
		}
	}
	return nil
}
