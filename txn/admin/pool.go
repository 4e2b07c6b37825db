package admin

import (
	"time"

	"github.com/txmgr/txmgr/txn"
)

// Pool is the concurrency limit of a participant in phase two, that is, how many calls it gets
// at once, as the leader sees it, with the decisions that led to the limit.
type Pool struct {
	Participant string `json:"participant"`
	Optimizer   string `json:"optimizer"` // what decides the limit: knee, throughput, mean, p99, fixed:N, or custom
	Limit       int    `json:"limit"`     // calls at once
	Running     int    `json:"running"`   // calls under way
	Queued      int    `json:"queued"`    // branches that wait for a worker
	// Throughput is the number of calls answered per second. Mean and P99 are the times from
	// when calls could have begun to their ends. All are of the last 10 to 20 seconds.
	Throughput float64      `json:"throughput"`
	Mean       txn.Duration `json:"mean"`
	P99        txn.Duration `json:"p99"`
	// Raised and Lowered count the decisions for a larger and for a smaller limit since the
	// node became the leader.
	Raised  uint64 `json:"raised"`
	Lowered uint64 `json:"lowered"`
	// Decisions are the decisions that are retained, oldest first.
	Decisions []PoolDecision `json:"decisions"`
}

// PoolDecision is one decision about the concurrency limit of a participant.
type PoolDecision struct {
	At   time.Time `json:"at"`
	From int       `json:"from"`
	To   int       `json:"to"`
	Why  string    `json:"why"` // the reason, in words
	// Rate is the number of calls answered per second before the decision. Busy is how many
	// were under way on average, and Bound the part of the time, from 0 to 1, for which more
	// could have been made. Queued is how many branches waited.
	Rate   float64      `json:"rate"`
	Busy   float64      `json:"busy"`
	Bound  float64      `json:"bound"`
	Mean   txn.Duration `json:"mean"`
	P99    txn.Duration `json:"p99"`
	Queued int          `json:"queued"`
}
