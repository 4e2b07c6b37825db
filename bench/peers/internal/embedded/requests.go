package embedded

import (
	"time"

	"github.com/txmgr/txmgr/bench/peers/internal/rig"
	"github.com/txmgr/txmgr/node"
	"github.com/txmgr/txmgr/txn/admin"
)

// workerProcess is a worker in a process of its own.
type workerProcess = rig.Worker[request, response]

// request is what a worker reads, and response what it answers. The fields in use depend on Do.
type request struct {
	Do      string        `json:"do"`
	Cluster *node.Cluster `json:"cluster,omitempty"`
	Callers int           `json:"callers,omitempty"`
	Span    time.Duration `json:"span,omitempty"`
	Count   int           `json:"count,omitempty"`
	Lead    time.Duration `json:"lead,omitempty"`
	First   uint64        `json:"first,omitempty"`
	Last    uint64        `json:"last,omitempty"`
	File    string        `json:"file,omitempty"`
}

func (r request) String() string { return r.Do }

type response struct {
	Status *admin.Status  `json:"status,omitempty"`
	Pairs  *Pairs         `json:"pairs,omitempty"`
	Group  *DeadlineGroup `json:"group,omitempty"`
	Sizes  []int          `json:"sizes,omitempty"`
}

// Pairs are begins and commits, each durable before the next is sent.
type Pairs struct {
	rig.Sample
	Commands    uint64        `json:"commands"`
	Entries     uint64        `json:"entries"`
	Syncs       uint64        `json:"syncs"`        // fdatasync calls of the leader
	LeaderCPU   time.Duration `json:"lead_cpu_ns"`  // per pair, of the leader and the callers in its process
	FollowerCPU time.Duration `json:"crew_cpu_ns"`  // per pair, of the two others
	LeaderMoved bool          `json:"leader_moved"` // the leader changed meanwhile: the sample is invalid
}

// DeadlineGroup is many transactions with deadlines at the same tick.
type DeadlineGroup struct {
	Count   int           `json:"count"`
	Filling time.Duration `json:"filling_ns"` // to begin them
	Decided time.Duration `json:"decided_ns"` // from the tick until the entry that ends the group is applied, which makes all their outcomes durable
	Moved   time.Duration `json:"moved_ns"`   // from the tick until the record of the last one says so
	Entries int           `json:"entries"`    // from the entry that ends the group on
	Bytes   int           `json:"bytes"`      // of the first of these entries
	All     int           `json:"all_bytes"`  // of all of them
	First   uint64        `json:"first"`      // the indices of these entries
	Last    uint64        `json:"last"`
}
