package asynclog

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"strings"
	"testing"
	"testing/slogtest"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// terminal blocks until it is released.
type terminal struct {
	free chan struct{}
	text bytes.Buffer
}

func (f *terminal) Write(p []byte) (int, error) {
	<-f.free
	return f.text.Write(p)
}

func (f *terminal) logger() *slog.Logger {
	text := slog.NewTextHandler(f, &slog.HandlerOptions{ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
		if a.Key == slog.TimeKey {
			return slog.Attr{}
		}
		return a
	}})
	return Wrap(slog.New(text))
}

// TestStuckHoldsNobodyUp: lines above the limit are counted, no caller waits, and the order
// is kept, also between loggers that were derived from one another.
func TestStuckHoldsNobodyUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := terminal{free: make(chan struct{})}
		log := f.logger()
		other := log.With("from", "raft")
		log.Info("first")
		synctest.Wait() // it is being written
		for i := range maxLines + 100 {
			if i%2 == 0 {
				log.Info("even", "i", i)
			} else {
				other.Warn("odd", "i", i)
			}
		}
		close(f.free)
		synctest.Wait()
		other.Info("next")
		log.Info("last")
		Flush(other)
		lines := strings.Split(strings.TrimSpace(f.text.String()), "\n")
		if len(lines) != maxLines+3 {
			t.Fatalf("%d lines", len(lines))
		}
		for i, want := range map[int]string{
			0: "level=INFO msg=first", 1: "level=INFO msg=even i=0", 2: "level=WARN msg=odd from=raft i=1", 3: "level=INFO msg=even i=2",
			maxLines: "level=WARN msg=odd from=raft i=1023", maxLines + 1: "level=INFO msg=next from=raft unwritten=100", maxLines + 2: "level=INFO msg=last",
		} {
			if lines[i] != want {
				t.Errorf("line %d is %q; want %q", i, lines[i], want)
			}
		}
	})
}

// TestFlush: Flush waits for what was logged before, with a limit, and logging may continue.
func TestFlush(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := terminal{free: make(chan struct{})}
		log := f.logger()
		flushing := func() time.Duration {
			started := time.Now()
			Flush(log)
			return time.Since(started)
		}
		if took := flushing(); took != 0 {
			t.Errorf("with nothing to write it took %v", took)
		}
		log.Info("first")
		if took := flushing(); took != flushTimeout {
			t.Errorf("with a terminal that is stuck it took %v", took)
		}
		time.AfterFunc(100*time.Millisecond, func() { close(f.free) })
		if took := flushing(); took != 100*time.Millisecond || !strings.Contains(f.text.String(), "first") {
			t.Errorf("with a terminal that is let go it took %v: %q", took, f.text.String())
		}
		log.Info("second")
		if flushing(); !strings.Contains(f.text.String(), "second") {
			t.Errorf("after a flush: %q", f.text.String())
		}
	})
}

// TestWrapChangesNothing but the goroutine: attributes, groups and levels are those of the
// inner handler.
func TestWrapChangesNothing(t *testing.T) {
	var text bytes.Buffer
	log := Wrap(slog.New(slog.NewJSONHandler(&text, nil)))
	if Wrap(log.With("a", 1)).Handler().(handler).queue != log.Handler().(handler).queue {
		t.Error("a second queue")
	}
	if log.Enabled(context.Background(), slog.LevelDebug) {
		t.Error("the handler takes no line at level DEBUG, and is given them")
	}
	if err := slogtest.TestHandler(log.Handler(), func() (found []map[string]any) {
		Flush(log)
		for d := json.NewDecoder(&text); ; {
			var line map[string]any
			if err := d.Decode(&line); err == io.EOF {
				return found
			} else if err != nil {
				t.Fatal(err)
			}
			found = append(found, line)
		}
	}); err != nil {
		t.Error(err)
	}
	Flush(slog.New(slog.DiscardHandler)) // waits for nothing
}
