package admin

import "github.com/txmgr/txmgr/txn"

// DeadlineGroup is all transactions with the same expiry tick: the same invocation of the
// timeout thread ends them.
type DeadlineGroup struct {
	ExpiryTick           uint64       `json:"expiry_tick"`
	RemainingInvocations uint64       `json:"remaining_invocations"`
	ExpiresIn            txn.Duration `json:"expires_in"`
	Transactions         int          `json:"transactions"`
}

// DeadlineGroups is the survival index at one tick, or the requested part of it.
type DeadlineGroups struct {
	Tick     uint64          `json:"tick"`
	Interval txn.Duration    `json:"interval"`
	Groups   []DeadlineGroup `json:"groups"` // the one that ends first before the others
	// Next is the tick of the first group that did not fit; zero when all did.
	Next uint64 `json:"next"`
}

// DeadlineGroupRange chooses groups of the survival index. The zero DeadlineGroupRange chooses
// the first [DefaultDeadlineGroups].
type DeadlineGroupRange struct {
	From  uint64 // those that end at this tick or later
	Limit int    // at most this many; 0 means DefaultDeadlineGroups; at most MaxDeadlineGroups
}

// How many groups one answer holds.
const (
	DefaultDeadlineGroups = 1000
	MaxDeadlineGroups     = 10_000
)
