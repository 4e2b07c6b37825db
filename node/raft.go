package node

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/raft"
	"github.com/oklog/ulid/v2"

	"github.com/txmgr/txmgr/raftfsm/logstore"
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

// storage is what a node has on disk.
type storage struct {
	log   *logstore.Store
	snaps *raft.FileSnapshotStore
	id    raft.ServerID
}

var nodeIDKey = []byte("txmgr/node-id")

// openStorage opens or makes the data directory.
func openStorage(dir string, onFailure func(error), logger *slog.Logger) (*storage, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("data directory %s: %w", dir, err)
	}
	snaps, err := raft.NewFileSnapshotStoreWithLogger(dir, snapshotsKept, hclogger(logger))
	if err != nil {
		return nil, fmt.Errorf("data directory %s: snapshots: %w", dir, err)
	}
	log, err := logstore.Open(filepath.Join(dir, "log.db"), logstore.Options{OnFailure: onFailure, Snapshots: snaps})
	if err != nil {
		return nil, fmt.Errorf("data directory %s: %w", dir, err)
	}
	s := &storage{log: log, snaps: snaps}
	if s.id, err = nodeID(log); err != nil {
		return nil, errors.Join(fmt.Errorf("data directory %s: %w", dir, err), log.Close())
	}
	return s, nil
}

// nodeID names this replica. It is made with the data directory and never used
// for another one.
func nodeID(log *logstore.Store) (raft.ServerID, error) {
	b, err := log.Get(nodeIDKey)
	if err == nil && len(b) > 0 {
		return raft.ServerID(b), nil
	}
	id := "n_" + strings.ToLower(ulid.Make().String())
	if err := log.Set(nodeIDKey, []byte(id)); err != nil {
		return "", fmt.Errorf("naming the node: %w", err)
	}
	return raft.ServerID(id), nil
}

// startRaft starts a cluster of one, forming it when the log is new.
func startRaft(s *storage, fsm raft.FSM, logger *slog.Logger) (*raft.Raft, error) {
	conf := raft.DefaultConfig()
	conf.LocalID = s.id
	conf.Logger = hclogger(logger)
	conf.HeartbeatTimeout, conf.ElectionTimeout, conf.LeaderLeaseTimeout = soloTimeout, soloTimeout, soloTimeout
	conf.SnapshotThreshold, conf.TrailingLogs, conf.SnapshotInterval = snapshotEntries, trailingEntries, snapshotInterval
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
	r, err := raft.NewRaft(conf, fsm, s.log, s.log, s.snaps, transport)
	if err != nil {
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
