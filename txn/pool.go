package txn

import "time"

// Pool is how many calls a participant gets at once when its branches are driven to
// their end, as the leader sees it, and how that was found.
type Pool struct {
	Participant string `json:"participant"`
	Optimizer   string `json:"optimizer"` // what decides the limit: knee, throughput, mean, p99, fixed:N, or custom
	Limit       int    `json:"limit"`     // calls that it gets at once
	Running     int    `json:"running"`   // calls under way
	Queued      int    `json:"queued"`    // branches that wait for a worker
	// Throughput is the number of calls answered in a second, Mean and P99 the times from
	// when they could have begun to their ends, in the last 10 to 20 seconds.
	Throughput float64  `json:"throughput"`
	Mean       Duration `json:"mean"`
	P99        Duration `json:"p99"`
	// Raised and Lowered count the decisions for a larger limit, and for a smaller one,
	// since the node leads.
	Raised  uint64 `json:"raised"`
	Lowered uint64 `json:"lowered"`
	// Decisions are those that are kept, oldest first.
	Decisions []PoolDecision `json:"decisions"`
}

// PoolDecision is a decision about how many calls a participant gets at once.
type PoolDecision struct {
	At   time.Time `json:"at"`
	From int       `json:"from"`
	To   int       `json:"to"`
	Why  string    `json:"why"` // the reason, for people
	// Rate is the number of calls answered in a second before, Busy how many were under
	// way on average, Bound the part of the time, from 0 to 1, for which more could have
	// been made; Queued is how many waited.
	Rate   float64  `json:"rate"`
	Busy   float64  `json:"busy"`
	Bound  float64  `json:"bound"`
	Mean   Duration `json:"mean"`
	P99    Duration `json:"p99"`
	Queued int      `json:"queued"`
}
