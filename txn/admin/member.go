package admin

import "github.com/txmgr/txmgr/txn"

// Member is one node of the cluster, as the node that was asked sees it.
type Member struct {
	// ID was made with the node's data directory, and is never used for another.
	ID string `json:"id"`
	// Name is a description for operators; empty when the node was given none.
	Name string `json:"name"`
	// RaftAddr is the address at which the other nodes reach it, and API the URL at which
	// clients do; API is empty until the node has reported it.
	RaftAddr string `json:"raft_addr"`
	API      string `json:"api"`
	// Version is the release that the node reported.
	Version string `json:"version"`
	// Voter says that the node votes in the cluster; otherwise it is a learner, which is still
	// catching up.
	Voter bool `json:"voter"`
	// Leader says that the node leads; Self that it is the node that answers.
	Leader bool `json:"leader"`
	Self   bool `json:"self"`
	// LastContact is how long ago the leader was last in contact with the node, and Behind how
	// many log entries the node lacks. Only the leader knows either; -1 otherwise.
	LastContact txn.Duration `json:"last_contact"`
	LogLag      int64        `json:"log_lag"`
}
