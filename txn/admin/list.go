package admin

import (
	"time"

	"github.com/txmgr/txmgr/txn"
)

// Filter chooses transactions. The zero Filter chooses all.
type Filter struct {
	States        []txn.State   // any of these; none means any
	Participant   string        // has a branch there
	OlderThan     time.Duration // began at least this long ago
	ExpiresWithin time.Duration // undecided, not delegated, and at most this far from its deadline
	Labels        map[string]string
	Prefix        string // text form of the id begins so
	Limit         int    // at most this many, the newest ones; 0 means 1,000
	// Before leaves only the ids before this one, which need not be that of a transaction: with
	// the first id of a list it gives the list before that. Watch does not use it.
	Before txn.ID
}

// Event reports that a transaction changed its state.
type Event struct {
	ID        txn.ID        `json:"id"`
	Name      string        `json:"name"`
	State     txn.State     `json:"state"`
	Cause     txn.Cause     `json:"cause"`
	Heuristic txn.Heuristic `json:"heuristic"`
	Tick      uint64        `json:"tick"`
	Time      time.Time     `json:"time"` // the leader's wall clock, for display only
}
