package node

import (
	"fmt"
	"io"
	"log/slog"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/raft"
)

// A snapshot may be asked for at any time by the bytes of log since the last
// one; these are for many small entries. Twice as many entries stay behind a
// snapshot as it takes to make one, so that a follower seldom needs it.
const (
	snapshotEntries  = 8192
	trailingEntries  = 2 * snapshotEntries
	snapshotInterval = 30 * time.Second
	snapshotsKept    = 2
	// soloTimeout is the election timeout of a cluster of one, which has nobody
	// to disturb and should be back at once.
	soloTimeout = 50 * time.Millisecond
)

// startRaft starts a cluster of one, forming it when the log is new.
func startRaft(s *storage, fsm raft.FSM, trailing uint64, logger *slog.Logger) (r *raft.Raft, err error) {
	conf := raft.DefaultConfig()
	conf.LocalID = s.id
	conf.Logger = hclogger(logger)
	conf.HeartbeatTimeout, conf.ElectionTimeout, conf.LeaderLeaseTimeout = soloTimeout, soloTimeout, soloTimeout
	conf.SnapshotThreshold, conf.TrailingLogs, conf.SnapshotInterval = snapshotEntries, trailing, snapshotInterval
	addr, transport := raft.NewInmemTransport("")
	known, err := raft.HasExistingState(s.log, s.log, s.snaps)
	if err != nil {
		return nil, fmt.Errorf("reading the log: %w", err)
	}
	if !known {
		first := raft.Configuration{Servers: []raft.Server{{ID: s.id, Address: addr}}}
		if err := raft.BootstrapCluster(conf, s.log, s.log, s.snaps, transport, first); err != nil {
			return nil, fmt.Errorf("forming the cluster: %w", err)
		}
	}
	// raft panics on what it cannot read at its start.
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("%w: raft cannot start: %v", ErrDamaged, p)
		}
	}()
	if r, err = raft.NewRaft(conf, fsm, s.log, s.log, s.snaps, transport); err != nil {
		return nil, fmt.Errorf("starting raft: %w", err)
	}
	return r, nil
}

// hclogger gives raft's messages to logger, at debug level what is not a warning.
func hclogger(logger *slog.Logger) hclog.Logger {
	l := hclog.NewInterceptLogger(&hclog.LoggerOptions{Output: io.Discard, Level: hclog.Debug})
	l.RegisterSink(hclogSink{logger})
	return l
}

// electionStarts is a warning among several nodes. One alone says it at each
// start, where it means that all is well.
const electionStarts = "heartbeat timeout reached, starting election"

type hclogSink struct{ logger *slog.Logger }

// Accept implements hclog.SinkAdapter.
func (s hclogSink) Accept(name string, level hclog.Level, msg string, args ...any) {
	l := s.logger.With("from", name)
	switch {
	case level >= hclog.Error:
		l.Error(msg, args...)
	case level == hclog.Warn && msg != electionStarts:
		l.Warn(msg, args...)
	default:
		l.Debug(msg, args...)
	}
}
