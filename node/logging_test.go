package node

import (
	"bytes"
	"encoding/json"
	"errors"
	"log/slog"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/txmgr/txmgr/recovery"
	"github.com/txmgr/txmgr/txn"
)

// logCapture is a log file that a test reads.
type logCapture struct {
	mu      sync.Mutex
	text    bytes.Buffer
	waiting chan struct{} // closed when the next line is written
}

func (f *logCapture) Write(p []byte) (int, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.waiting != nil {
		close(f.waiting)
		f.waiting = nil
	}
	return f.text.Write(p)
}

// await waits until the lines with a message are as wanted.
func (f *logCapture) await(t *testing.T, message string, enough func([]map[string]any) bool) {
	t.Helper()
	over := time.After(time.Minute)
	for {
		f.mu.Lock()
		if f.waiting == nil {
			f.waiting = make(chan struct{})
		}
		more := f.waiting
		f.mu.Unlock()
		if enough(f.lines(t, message)) {
			return
		}
		select {
		case <-more:
		case <-over:
			t.Fatalf("lines %q are missing:\n%s", message, f.text.String())
		}
	}
}

func some(lines []map[string]any) bool { return len(lines) > 0 }

// lines returns the lines with a message, without their times.
func (f *logCapture) lines(t *testing.T, message string) (found []map[string]any) {
	t.Helper()
	f.mu.Lock()
	defer f.mu.Unlock()
	for text := range bytes.Lines(f.text.Bytes()) {
		var x map[string]any
		if err := json.Unmarshal(text, &x); err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		if x["msg"] == message {
			delete(x, "time")
			delete(x, "msg")
			found = append(found, x)
		}
	}
	return found
}

func captureLog(f *logCapture) func(*Config) {
	return func(c *Config) { c.Logger = slog.New(slog.NewJSONHandler(f, nil)) }
}

// TestLogTellsWhatHappened: there is one line for each heuristic outcome, action of an operator,
// participant that goes down or is up again, and change of leadership, and one for the
// transactions that timed out.
func TestLogTellsWhatHappened(t *testing.T) {
	var f logCapture
	desks := participantMap{"bank": newFakeParticipant(), "stock": newFakeParticipant()}
	n, err := tryOpen(t, t.TempDir(), with(desks), captureLog(&f), func(c *Config) {
		c.Recovery = recovery.Config{BackoffBase: time.Millisecond, BackoffMax: time.Millisecond, BreakerMax: 10 * time.Millisecond}
	})
	if err != nil {
		t.Fatal(err)
	}
	hurt := makeHeuristic(t, n, desks)
	if _, err := n.Admin().Forget(t.Context(), hurt.ID, "ann", "booked manually"); err != nil {
		t.Fatal(err)
	}
	late, err := n.Begin(t.Context(), txn.Options{Timeout: 20 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	finished(t, n, late.ID)
	desks["bank"].(*fakeParticipant).outage(errors.New("connection refused"))
	stuck := order(t, n, desks, "bank")
	f.await(t, "participant is down: its branches wait and are tried again", some)
	desks["bank"].(*fakeParticipant).outage(nil)
	finished(t, n, stuck.ID)
	f.await(t, "participant is up again", some)
	if err := n.Close(); err != nil {
		t.Fatal(err)
	}
	manual, err := os.ReadFile("../docs/operate.md")
	if err != nil {
		t.Fatal(err)
	}
	for message, want := range map[string]map[string]any{
		"leadership gained: this node decides":           {"level": "INFO", "undecided": 0.0, "completing": 0.0, "heuristics": 0.0},
		"leadership lost: another node decides, or none": {"level": "INFO"},
		"heuristic outcome: a branch ended, or may have ended, otherwise than decided": {
			"level": "ERROR", "tx": hurt.ID.String(), "branch": "b2", "participant": "stock", "heuristic": "rolled-back", "detail": "the desk's own book",
			"hint": "Explain returns what is known of the branches",
		},
		"operator acted":                                             {"level": "INFO", "action": "forget", "tx": hurt.ID.String(), "by": "ann", "reason": "booked manually"},
		"transactions timed out: rolled back":                        {"level": "INFO", "tx": late.ID.String(), "count": 1.0, "cause": "timeout"},
		"participant is down: its branches wait and are tried again": {"level": "WARN", "participant": "bank", "hint": "Doctor checks the participant"},
		"participant is up again":                                    {"level": "INFO", "participant": "bank"},
	} {
		if !strings.Contains(string(manual), "`"+message+"`") {
			t.Errorf("docs/operate.md does not list %q", message)
		}
		got := f.lines(t, message)
		if message == "operator acted" { // the participants were added by this node itself
			got = slices.DeleteFunc(got, func(x map[string]any) bool { return x["action"] == "add-participant" })
		}
		if len(got) != 1 {
			t.Errorf("%q: %d lines: %v", message, len(got), got)
			continue
		}
		for k, v := range want {
			if got[0][k] != v {
				t.Errorf("%q: %s is %v; want %v", message, k, got[0][k], v)
			}
		}
	}
}

// TestLogOfTimeoutsIsLimited: transactions that time out one after the other are logged in ten
// lines and then in one line in a second, which together count all of them.
func TestLogOfTimeoutsIsLimited(t *testing.T) {
	var f logCapture
	n := open(t, t.TempDir(), captureLog(&f))
	const all = 60
	started := time.Now()
	for range all {
		b, err := n.Begin(t.Context(), txn.Options{Timeout: 10 * time.Millisecond})
		if err != nil {
			t.Fatal(err)
		}
		finished(t, n, b.ID)
	}
	n.measured.timeoutLog.timeouts.SetLimit(1e9)
	b, err := n.Begin(t.Context(), txn.Options{Timeout: 10 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	finished(t, n, b.ID)
	counted, lines := 0.0, 0
	f.await(t, "transactions timed out: rolled back", func(of []map[string]any) bool {
		counted, lines = 0, len(of)
		for _, x := range of {
			counted += x["count"].(float64)
		}
		return counted >= all+1
	})
	if counted != all+1 || lines > 12+int(time.Since(started).Seconds()) {
		t.Errorf("%v of %d transactions are in %d lines", counted, all+1, lines)
	}
}
