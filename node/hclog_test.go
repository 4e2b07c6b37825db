package node

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// TestRaftSaysTheSameOnceAMinute: a node that is down for a day does not fill the disks of the
// others with one message, and does not suppress messages about another node.
func TestRaftSaysTheSameOnceAMinute(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		l := hclogger(slog.New(slog.NewTextHandler(&out, nil)))
		for i := range 600 {
			l.Warn("failed to contact", "server-id", "10.0.0.2:7461", "error", fmt.Errorf("attempt %d", i))
			pass(500 * time.Millisecond)
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

// TestAFollowerThatIsAwayIsNoError: for a follower that is down, raft logs one warning that it
// cannot be contacted, and nothing else.
func TestAFollowerThatIsAwayIsNoError(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		var out bytes.Buffer
		log := slog.New(slog.NewTextHandler(writerFunc(func(p []byte) (int, error) {
			mu.Lock()
			defer mu.Unlock()
			return out.Write(p)
		}), nil))
		c := openReplicas(t, 3, func(c *Config) { c.Logger = log })
		defer c.close()
		l := c.leader()
		c.stop((l + 1) % 3)
		begin(t, c.nodes[l], time.Minute)
		pass(30 * time.Second)
		mu.Lock()
		defer mu.Unlock()
		contact := 0
		for line := range strings.Lines(out.String()) {
			switch {
			case strings.Contains(line, "failed to contact"):
				contact++
			case strings.Contains(line, "from=") && (strings.Contains(line, "level=ERROR") || strings.Contains(line, "level=WARN")):
				t.Errorf("raft says: %s", line)
			}
		}
		if contact != 1 {
			t.Errorf("that the follower is away was said %d times; want once", contact)
		}
	})
}

type writerFunc func([]byte) (int, error)

func (f writerFunc) Write(p []byte) (int, error) { return f(p) }

// TestOddArgumentsOfALogLine: raft may name a key without a value.
func TestOddArgumentsOfALogLine(t *testing.T) {
	if key := raftLineKey("rejecting", []any{"from"}); key != "rejecting" {
		t.Errorf("a key without a value makes a line another one: %q", key)
	}
}
