package timeoutbench

import (
	"context"
	"slices"
	"sync/atomic"
	"time"

	"github.com/txmgr/txmgr/timeout"
)

// timeoutThread is the timeout thread of an experiment: it invokes a manager every interval.
type timeoutThread struct {
	manager Manager
	tick    atomic.Uint64

	took     []time.Duration // of each invocation; the goroutine of run writes it
	timeouts int
}

func newTimeoutThread(m Manager) *timeoutThread { return &timeoutThread{manager: m} }

func (t *timeoutThread) now() timeout.Tick { return timeout.Tick(t.tick.Load()) }

// run invokes the manager until ctx ends, and once more, so that there is a figure however short a
// run was.
func (t *timeoutThread) run(ctx context.Context, interval time.Duration) {
	ticker := time.NewTicker(interval)
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C:
			t.invoke()
		case <-ctx.Done():
			t.invoke()
			return
		}
	}
}

func (t *timeoutThread) invoke() {
	now := timeout.Tick(t.tick.Add(1))
	t.took = append(t.took, ThreadCPU(func() { t.timeouts += len(t.manager.Invoke(now)) }))
}

// report is called when run has returned.
func (t *timeoutThread) report(r *RedesignResult) {
	r.Invocation, r.InvocationMax = Median(t.took), slices.Max(t.took)
	r.Invocations, r.Timeouts = len(t.took), t.timeouts
}
