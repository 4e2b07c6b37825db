package node

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
)

// childMode is the environment variable that makes the test binary a child process, which a test
// may let end.
const childMode = "NODE_TEST_CHILD"

const (
	modeFail = "fail" // open a node in the current directory, whose log fails
)

func TestMain(m *testing.M) {
	switch mode := os.Getenv(childMode); mode {
	case "":
		goleak.VerifyTestMain(m)
	case modeFail:
		slow := writerFunc(func(p []byte) (int, error) { <-time.After(50 * time.Millisecond); return os.Stderr.Write(p) })
		n, err := Open(context.Background(), Config{DataDir: "data", Logger: slog.New(slog.NewTextHandler(slow, nil))})
		if err != nil {
			panic(err)
		}
		n.fail(errors.New("the disk is gone"))
	}
}

// TestLastLineOfAProcess: when the log fails the process logs the cause and ends with exit code
// 1, even if its logger is slow.
func TestLastLineOfAProcess(t *testing.T) {
	t.Parallel()
	cmd := exec.Command(os.Args[0])
	cmd.Dir, cmd.Env = t.TempDir(), append(os.Environ(), childMode+"="+modeFail)
	out, err := cmd.CombinedOutput()
	if exit := (*exec.ExitError)(nil); !errors.As(err, &exit) || exit.ExitCode() != 1 {
		t.Errorf("the process ends with %v", err)
	}
	if !strings.Contains(string(out), "the disk is gone") {
		t.Errorf("it does not say why: %s", out)
	}
}
