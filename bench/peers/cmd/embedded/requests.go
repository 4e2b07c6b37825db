package main

import (
	"time"

	"github.com/txmgr/txmgr/bench/peers/internal/rig"
)

// workerProcess is a worker in a process of its own.
type workerProcess = rig.Worker[request, response]

// request is what a worker reads, and response what it answers. The fields in use depend on Do.
type request struct {
	Do       string        `json:"do"` // the kind of the request
	Callers  int           `json:"callers,omitempty"`
	Span     time.Duration `json:"span,omitempty"`
	Count    int           `json:"count,omitempty"`
	Branches int           `json:"branches,omitempty"`
	Lead     time.Duration `json:"lead,omitempty"`
}

func (r request) String() string { return r.Do }

type response struct {
	Pairs   *pairs         `json:"pairs,omitempty"`
	Memory  *memory        `json:"memory,omitempty"`
	Pauses  *pauses        `json:"pauses,omitempty"`
	Idle    *idle          `json:"idle,omitempty"`
	Group   *deadlineGroup `json:"group,omitempty"`
	Restart *restartResult `json:"restart,omitempty"`
}

// pairs are begins and commits, each durable before the next is sent.
type pairs struct {
	rig.Sample
	Commands uint64        `json:"commands"`
	Entries  uint64        `json:"entries"`
	Syncs    uint64        `json:"syncs"`       // fdatasync calls
	CPU      time.Duration `json:"cpu_ns"`      // per pair
	Open     int           `json:"open"`        // transactions, afterwards
	Finished int           `json:"finished"`    // outcomes kept, afterwards
	Written  int64         `json:"written_b"`   // bytes, to disks
	LogBytes uint64        `json:"log_bytes_b"` // size of the log's file
}

// memory is measured after two collections.
type memory struct {
	Heap        int64           `json:"heap_b"`     // live
	Resident    int64           `json:"resident_b"` // of the process
	Collections []time.Duration `json:"collections_ns"`
}

// pauses are the effect of a snapshot on callers, and that of the machine alone.
type pauses struct {
	Snapshot time.Duration `json:"snapshot_ns"` // its whole duration
	Pause    time.Duration `json:"pause_ns"`    // while the state is read
	Bytes    int64         `json:"bytes"`
	During   rig.Sample    `json:"during"`
	Without  rig.Sample    `json:"without"`
}

// idle is a node without calls.
type idle struct {
	Span       time.Duration `json:"span_ns"`
	CPU        time.Duration `json:"cpu_ns"`
	Entries    uint64        `json:"entries"`
	Written    int64         `json:"written_b"`
	Groups     int           `json:"groups"` // of different deadlines
	Open       int           `json:"open"`
	Checkpoint time.Duration `json:"checkpoint_ns"`
}

// deadlineGroup is many transactions with deadlines at the same tick.
type deadlineGroup struct {
	Count    int           `json:"count"`
	Branches int           `json:"branches"`
	Decided  time.Duration `json:"decided_ns"`  // from the tick until the last one is decided, durably
	Entries  uint64        `json:"entries"`     // of the log meanwhile
	Empty    uint64        `json:"empty"`       // of these, without a command: the deadlines alone
	Finished time.Duration `json:"finished_ns"` // from the tick until the last branch is known to be rolled back
	All      uint64        `json:"all_entries"` // until then
}

// restartResult is how long a restart took.
type restartResult struct {
	Took time.Duration `json:"took_ns"`
	Open int           `json:"open"`
	Log  int64         `json:"log_b"` // files that were read
}
