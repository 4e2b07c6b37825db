package admin

import (
	"time"

	"github.com/txmgr/txmgr/txn"
)

// ClientSession is a client session as the coordinator sees it. The JSON form is part of the
// API.
type ClientSession struct {
	ID    txn.SessionID    `json:"id"`
	Name  string           `json:"name"`
	State txn.SessionState `json:"state"`
	// TTL is the granted time to live.
	TTL txn.Duration `json:"ttl"`
	// Opened is the leader's wall clock, for display only.
	Opened time.Time `json:"opened"`
	// Transactions is how many undecided transactions the session has.
	Transactions int `json:"transactions"`
	// EndedTick is the coordinator's tick at which it was closed or expired; zero while it is open.
	EndedTick uint64 `json:"ended_tick,omitempty"`
}

// SessionFilter chooses client sessions. The zero value chooses those that are open.
type SessionFilter struct {
	// Ended adds those that are closed or expired, as long as they are retained.
	Ended bool
	// Limit is the largest number to return, the newest ones; 0 means 1,000.
	Limit int
}
