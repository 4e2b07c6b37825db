//go:build failpoint

package failpoint

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

// Enabled reports whether this build has failpoints.
const Enabled = true

var hits atomic.Int64

// trigger is the content of TXMGR_FAILPOINT.
type trigger struct {
	step string
	nth  int64  // the pass at which the process ends
	file string // while it exists, a goroutine waits; empty: the process ends
}

var active = sync.OnceValue(func() trigger {
	text := os.Getenv("TXMGR_FAILPOINT")
	if step, file, halts := strings.Cut(text, "@"); halts {
		return trigger{step: step, file: file}
	}
	step, count, _ := strings.Cut(text, ":")
	n, err := strconv.ParseInt(count, 10, 64)
	if err != nil {
		n = 1
	}
	return trigger{step: step, nth: n}
})

// Hit ends the process if name is the triggered step and this is its nth pass, or waits there.
func Hit(name string) {
	w := active()
	if name != w.step {
		return
	}
	if w.file != "" {
		halt(name, w.file)
		return
	}
	if hits.Add(1) != w.nth {
		return
	}
	fmt.Fprintf(os.Stderr, "failpoint: %s\n", name)
	_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
	select {} // the signal is pending: this goroutine must do nothing more
}

var haltMu sync.Mutex // held by the waiting goroutine

func halt(name, file string) {
	if !haltMu.TryLock() {
		return
	}
	defer haltMu.Unlock()
	for said := false; ; said = true {
		if _, err := os.Stat(file); err != nil {
			return
		}
		if !said {
			fmt.Fprintf(os.Stderr, "failpoint: halted at %s\n", name)
		}
		time.Sleep(10 * time.Millisecond)
	}
}
