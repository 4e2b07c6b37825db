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
)

// Enabled says whether this build has failpoints.
const Enabled = true

var passed atomic.Int64

var wanted = sync.OnceValues(func() (string, int64) {
	name, count, _ := strings.Cut(os.Getenv("TXMGR_FAILPOINT"), ":")
	n, err := strconv.ParseInt(count, 10, 64)
	if err != nil {
		n = 1
	}
	return name, n
})

// Hit ends the process when name is the wanted step and its turn has come.
func Hit(name string) {
	want, n := wanted()
	if name != want || passed.Add(1) != n {
		return
	}
	fmt.Fprintf(os.Stderr, "failpoint: %s\n", name)
	_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
	select {} // the signal is on its way: nothing more may happen
}
