package node

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

// TestRaftSaysTheSameOnceAMinute: a node that is down for a day does not fill the disk of the
// others with one message, and does not hide what is said of another one.
func TestRaftSaysTheSameOnceAMinute(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		l := hclogger(slog.New(slog.NewTextHandler(&out, nil)))
		for i := range 600 {
			l.Error("failed to heartbeat to", "peer", "10.0.0.2:7461", "error", fmt.Errorf("attempt %d", i))
			pass(500 * time.Millisecond)
		}
		if n := strings.Count(out.String(), "10.0.0.2"); n != 5 {
			t.Errorf("it was said %d times in five minutes; want 5", n)
		}
		l.Error("failed to heartbeat to", "peer", "10.0.0.3:7461", "error", errors.New("refused"))
		if !strings.Contains(out.String(), "10.0.0.3") {
			t.Error("nothing was said of the other node")
		}
		s := &hclogSink{logger: slog.New(slog.DiscardHandler), said: make(map[string]time.Time)}
		for i := range 10 * maxSaid {
			s.again("rejecting", []any{"from", i})
		}
		if len(s.said) > maxSaid {
			t.Errorf("%d things are remembered", len(s.said))
		}
	})
}
