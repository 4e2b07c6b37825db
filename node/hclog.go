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

// hclogger gives raft's messages to logger, at debug level what is not a warning, is
// ordinary, or was said just before.
func hclogger(logger *slog.Logger) hclog.Logger {
	l := hclog.NewInterceptLogger(&hclog.LoggerOptions{Output: io.Discard, Level: hclog.Debug})
	l.RegisterSink(&hclogSink{logger: logger, lastLogged: make(map[string]time.Time)})
	return l
}

// electionStartsMessage is a warning among several nodes. One alone says it at each
// start, where it means that all is well.
const electionStartsMessage = "heartbeat timeout reached, starting election"

// expectedMessages is what raft says as an error or a warning while a node is away, was just started, or
// asks for votes. That a node is away is said by raft's "failed to contact", once.
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
	// repeatInterval is how often at most the same is said of the same node: of one that is down
	// raft speaks several times a second.
	repeatInterval = time.Minute
	maxRepeatKeys  = 256 // things that are remembered
)

type hclogSink struct {
	logger *slog.Logger

	mu         sync.Mutex
	lastLogged map[string]time.Time // guarded by mu: when
}

// Accept implements hclog.SinkAdapter.
func (s *hclogSink) Accept(name string, level hclog.Level, msg string, args ...any) {
	l := s.logger.With("from", name)
	args = slices.Clone(args)
	for i, a := range args {
		if r, ok := a.(*raft.Raft); ok {
			args[i] = r.String() // in the state that it speaks of: the line is written later
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

// isRepeat reports whether this was said of the same node not long ago, and notes that it is
// said now if it was not.
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
