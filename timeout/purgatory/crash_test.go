package purgatory_test

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/txmgr/txmgr/timeout/purgatory"
)

// A panic of the goroutine that keeps the deadlines cannot be recovered: it ends the program with
// its message.
func TestPanicAtTheDeadlineEndsTheProgram(t *testing.T) {
	const crash = "PURGATORY_TEST_CRASH"
	if os.Getenv(crash) != "" {
		p := open(t)
		park(t, p, &spy{done: func(purgatory.Outcome) { panic("the end of " + crash) }}, time.Millisecond, "a")
		<-time.After(time.Minute)
		return
	}
	cmd := exec.Command(os.Args[0], "-test.run", "^"+t.Name()+"$")
	cmd.Env = append(os.Environ(), crash+"=1")
	out, err := cmd.CombinedOutput()
	var exit *exec.ExitError
	if !errors.As(err, &exit) || !bytes.Contains(out, []byte("panic: the end of "+crash)) {
		t.Errorf("the program ended with %v and said:\n%s", err, out)
	}
}
