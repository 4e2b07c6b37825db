package admin

import (
	"time"

	"github.com/txmgr/txmgr/txn"
)

// Status is the state of one coordinator node.
type Status struct {
	Cluster    string       `json:"cluster"` // cluster id, part of every XID
	Node       string       `json:"node"`
	Leader     bool         `json:"leader"`
	LeaderID   string       `json:"leader_id"`
	Version    string       `json:"version"`
	Term       uint64       `json:"term"`
	LogIndex   uint64       `json:"log_index"`
	Tick       uint64       `json:"tick"`
	Interval   txn.Duration `json:"interval"`
	Uptime     txn.Duration `json:"uptime"`
	Undecided  int          `json:"undecided"`  // undecided, the delegated ones included
	Delegated  int          `json:"delegated"`  // undecided: the decision is left to their only branch
	Completing int          `json:"completing"` // decided (committing or rolling back), phase two not complete
	Finished   int          `json:"finished"`   // outcomes that are retained
	Heuristics int          `json:"heuristics"` // heuristic outcomes that are not forgotten yet
	Committed  uint64       `json:"committed"`  // decisions since bootstrap
	RolledBack uint64       `json:"rolled_back"`
	TimedOut   uint64       `json:"timed_out"`
	// RolledBackBy counts the decisions to roll back by cause. Its sum is less than RolledBack
	// by the decisions that were made before causes were counted.
	RolledBackBy map[txn.Cause]uint64 `json:"rolled_back_by"`
	// Sessions is the number of open client sessions, SessionsExpired how many have expired
	// so far.
	Sessions        int    `json:"sessions"`
	SessionsExpired uint64 `json:"sessions_expired"`
	Commands        uint64 `json:"commands"` // since this process started
	Entries         uint64 `json:"entries"`
	TickEntries     uint64 `json:"tick_entries"`
	Syncs           uint64 `json:"syncs"` // fdatasync calls of the log
	LogBytes        int64  `json:"log_bytes"`
	// Incarnation counts how often the cluster was restored from a backup. RecoveryPaused says
	// that no operator has resumed recovery since then.
	Incarnation    uint64 `json:"incarnation"`
	RecoveryPaused bool   `json:"recovery_paused"`
	// WaitingFor says what the node waits for before it serves; empty when it serves.
	WaitingFor string `json:"waiting_for,omitempty"`
	// Members are the nodes of the cluster; only this one when it has no others.
	Members []Member `json:"members"`
	// Participants as this node sees them.
	Participants []ParticipantStatus `json:"participants"`
}

// ParticipantStatus is the health of one participant as one node sees it.
type ParticipantStatus struct {
	Participant
	Healthy   bool         `json:"healthy"`
	LastError string       `json:"last_error"`
	NextTry   txn.Duration `json:"next_try_in"`
	Queued    int          `json:"queued"`  // branches that wait for a worker
	Running   int          `json:"running"` // branches being driven now
	// Since is when Healthy last changed; zero when the participant has not been called yet.
	Since time.Time `json:"since,omitzero"`
	// ProbeTook is how long the last probe took.
	ProbeTook txn.Duration `json:"probe_took"`
	// Optimizer, Limit, Throughput, Mean, P99, Raised and Lowered are as in [Pool]; zero on a
	// node that does not lead. Decision is the latest decision; nil when there was none.
	Optimizer  string        `json:"optimizer"`
	Limit      int           `json:"limit"`
	Throughput float64       `json:"throughput"`
	Mean       txn.Duration  `json:"mean"`
	P99        txn.Duration  `json:"p99"`
	Raised     uint64        `json:"raised"`
	Lowered    uint64        `json:"lowered"`
	Decision   *PoolDecision `json:"decision,omitempty"`
}

// ScanResult is one branch that a sweep found prepared at a participant.
type ScanResult struct {
	Participant string       `json:"participant"`
	XID         string       `json:"xid"`
	ID          txn.ID       `json:"id"`
	Branch      txn.BranchID `json:"branch"`
	Since       time.Time    `json:"since,omitzero"`
	Owner       string       `json:"owner"`
	// State is the state of the transaction; zero when the coordinator does not know it.
	State txn.State `json:"state"`
	// Locks and Waiters describe, for the operator, what the branch has locked there and what
	// waits for that; filled only when the scan was asked for by an operator.
	Locks   []string `json:"locks"`
	Waiters []string `json:"waiters"`
	// Class is the action that is needed: leave, commit or rollback. Otherwise it is foreign:
	// the branch belongs to another cluster and is never modified; orphaned-locks: locks that no
	// transaction holds and that stay until the participant restarts; unreachable: not a branch,
	// but a participant that could not be scanned, where there may be more. Done says that the
	// action was carried out, Error why it could not be.
	Class string `json:"class"`
	Done  bool   `json:"done"`
	Error string `json:"error"`
}
