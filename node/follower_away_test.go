package node

import (
	"bytes"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

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
