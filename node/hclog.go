package node

import (
	"fmt"
	"io"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/raft"
)

// hclogger passes raft's messages to logger: at debug level those below a warning, expected
// ones, and repeats.
func hclogger(logger *slog.Logger) hclog.Logger {
	l := hclog.NewInterceptLogger(&hclog.LoggerOptions{Output: io.Discard, Level: hclog.Debug})
	l.RegisterSink(&hclogSink{logger: logger, lastLogged: make(map[string]time.Time)})
	return l
}

// electionStartsMessage is a warning of raft. A single node logs it at each start, where it means
// that all is well.
const electionStartsMessage = "heartbeat timeout reached, starting election"

// expectedMessages are messages that raft logs as errors or warnings while a node is down, has
// just started, or requests votes. That a node is down is reported by raft's "failed to
// contact", once.
var expectedMessages = map[string]bool{
	"failed to heartbeat to":                                     true,
	"failed to appendEntries to":                                 true,
	"failed to make requestVote RPC":                             true,
	"failed to pipeline appendEntries":                           true,
	"failed to start pipeline replication to":                    true,
	"peer has newer term, stopping replication":                  true,
	"Election timeout reached, restarting election":              true,
	"rejecting vote request since our last term is greater":      true,
	"rejecting vote request since our last index is greater":     true,
	"failed to get previous log":                                 true,
	"appendEntries rejected, sending older logs":                 true,
	"rejecting vote request since we have a leader":              true,
	"rejecting pre-vote request since we have a leader":          true,
	"rejecting pre-vote request since our last term is greater":  true,
	"rejecting pre-vote request since our last index is greater": true,
}

const (
	// repeatInterval is the least time between two equal messages about the same node: raft logs
	// several messages a second about a node that is down.
	repeatInterval = time.Minute
	maxRepeatKeys  = 256 // messages that are remembered
)

type hclogSink struct {
	logger *slog.Logger

	mu         sync.Mutex
	lastLogged map[string]time.Time // guarded by mu: by message and node
}

// Accept implements hclog.SinkAdapter.
func (s *hclogSink) Accept(name string, level hclog.Level, msg string, args ...any) {
	l := s.logger.With("from", name)
	args = slices.Clone(args)
	for i, a := range args {
		if r, ok := a.(*raft.Raft); ok {
			args[i] = r.String() // the state at this moment: the line is written later
		}
	}
	switch {
	case level < hclog.Warn || msg == electionStartsMessage || expectedMessages[msg] || s.isRepeat(msg, args):
		l.Debug(msg, args...)
	case level >= hclog.Error:
		l.Error(msg, args...)
	default:
		l.Warn(msg, args...)
	}
}

// isRepeat reports whether the same message about the same node was logged within
// repeatInterval; if not, it records the message as logged now.
func (s *hclogSink) isRepeat(msg string, args []any) bool {
	key := msg
	for i := 0; i+1 < len(args); i += 2 {
		switch args[i] {
		case "peer", "server-id", "target", "from", "candidate", "id":
			key += fmt.Sprint(" ", args[i+1])
		}
	}
	now := time.Now()
	s.mu.Lock()
	defer s.mu.Unlock()
	if at, ok := s.lastLogged[key]; ok && now.Sub(at) < repeatInterval {
		return true
	}
	if len(s.lastLogged) >= maxRepeatKeys {
		clear(s.lastLogged)
	}
	s.lastLogged[key] = now
	return false
}
