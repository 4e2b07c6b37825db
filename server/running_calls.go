package server

import (
	"sync/atomic"

	"github.com/txmgr/txmgr/txn/admin"
)

// runningCalls counts the calls that run. Calls that only read have counters of their own,
// with the same limits, so that a reader cannot keep others from deciding.
type runningCalls struct {
	reads  callCounts // for which the role reader is enough
	writes callCounts // all others
}

// callCounts counts running calls by class.
type callCounts struct {
	requests atomic.Int64 // not counting those below
	fanouts  atomic.Int64 // that fan out to participants
	streams  atomic.Int64 // pipes, watches and waits
}

// all returns the number of running calls.
func (r *runningCalls) all() int64 {
	return r.streams() + r.reads.requests.Load() + r.reads.fanouts.Load() + r.writes.requests.Load() + r.writes.fanouts.Load()
}

// streams returns the number of running pipes, watches and waits.
func (r *runningCalls) streams() int64 { return r.reads.streams.Load() + r.writes.streams.Load() }

// limit returns the counter of the running calls like p and its limit.
func (r *runningCalls) limit(p *rpcMethod, cfg *Config) (running *atomic.Int64, most int) {
	l := &r.writes
	if p.role <= admin.RoleReader {
		l = &r.reads
	}
	switch p.class {
	case unary:
		return &l.requests, cfg.MaxRequests
	case fanout:
		return &l.fanouts, cfg.MaxFanoutCalls
	default:
		return &l.streams, cfg.MaxStreams
	}
}
