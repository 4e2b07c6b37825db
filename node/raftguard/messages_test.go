package raftguard

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// TestRaftSaysTheSameOnceAMinute: a node that is down for a day does not fill the disks of the
// others with one message, and does not suppress messages about another node.
func TestRaftSaysTheSameOnceAMinute(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		l := Logger(slog.New(slog.NewTextHandler(&out, nil)))
		for i := range 600 {
			l.Warn("failed to contact", "server-id", "10.0.0.2:7461", "error", fmt.Errorf("attempt %d", i))
			<-time.After(500 * time.Millisecond)
		}
		if n := strings.Count(out.String(), "10.0.0.2"); n != 5 {
			t.Errorf("it was said %d times in five minutes; want 5", n)
		}
		l.Warn("failed to contact", "server-id", "10.0.0.3:7461", "error", errors.New("refused"))
		if !strings.Contains(out.String(), "10.0.0.3") {
			t.Error("nothing was said of the other node")
		}
	})
}

// TestOddArgumentsOfALogLine: raft may name a key without a value.
func TestOddArgumentsOfALogLine(t *testing.T) {
	if key := raftLineKey("rejecting", []any{"from"}); key != "rejecting" {
		t.Errorf("a key without a value makes a line another one: %q", key)
	}
}
