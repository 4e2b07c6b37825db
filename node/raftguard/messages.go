package raftguard

import (
	"context"
	"fmt"
	"log/slog"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/raft"

	"github.com/txmgr/txmgr/internal/hclogslog"
	"github.com/txmgr/txmgr/internal/logsample"
)

// Logger returns the logger of raft, which passes messages to logger: at debug level those below a
// warning, expected ones, and repeats.
func Logger(logger *slog.Logger) hclog.Logger {
	lines := logsample.New(logsample.Minute, 1)
	return hclogslog.New(func(name string, level slog.Level, msg string, args []any) {
		for i, a := range args {
			if r, ok := a.(*raft.Raft); ok {
				args[i] = r.String() // the state at this moment: the line is written later
			}
		}
		if level > slog.LevelDebug {
			if msg == electionStartsMessage || expectedMessages[msg] {
				level = slog.LevelDebug
			} else if ok, _ := lines.Allow(raftLineKey(msg, args)); !ok {
				level = slog.LevelDebug
			}
		}
		logger.With("from", name).Log(context.Background(), level, msg, args...)
	})
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

// raftLineKey is the key by which a message is limited to one a minute: raft logs several messages a second
// about a node that is down.
func raftLineKey(msg string, args []any) string {
	key := msg
	for i := 0; i+1 < len(args); i += 2 {
		switch args[i] {
		case "peer", "server-id", "target", "from", "candidate", "id":
			key += fmt.Sprint(" ", args[i+1])
		}
	}
	return key
}
