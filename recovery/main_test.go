package recovery

import (
	"encoding/binary"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/txmgr/txmgr/adaptive"
	"github.com/txmgr/txmgr/txn"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const cluster = "c1"

// idOf makes the n-th id, n from 1.
func idOf(n int) txn.ID {
	var id txn.ID
	binary.BigEndian.PutUint64(id[8:], uint64(n))
	return id
}

// seeded gives repeatable randomness, safe for concurrent use.
func seeded(seed uint64) func() float64 {
	var mu sync.Mutex
	src := rand.New(rand.NewPCG(seed, seed))
	return func() float64 {
		mu.Lock()
		defer mu.Unlock()
		return src.Float64()
	}
}

// fixed gives every participant so many concurrent calls.
func fixed(n int) func() adaptive.Optimizer {
	return func() adaptive.Optimizer { return adaptive.Fixed(n) }
}

// begin makes a Recovery over log and starts it; it stops at the end of the test
// at the latest.
func begin(t testing.TB, cfg Config, log Log) *Recovery {
	t.Helper()
	if cfg.Cluster == "" {
		cfg.Cluster = cluster
	}
	if cfg.SweepEvery == 0 {
		cfg.SweepEvery = -1
	}
	if cfg.Rand == nil {
		cfg.Rand = seeded(1)
	}
	r := New(cfg, log)
	if fake, ok := log.(interface{ setRecovery(*Recovery) }); ok {
		fake.setRecovery(r)
	}
	r.Start()
	t.Cleanup(r.Stop)
	return r
}

// within fails the test unless the channel is closed in time.
func within(t testing.TB, d time.Duration, what string, done <-chan struct{}) {
	t.Helper()
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-done:
	case <-timer.C:
		t.Fatalf("%s: not within %v", what, d)
	}
}

// eventually polls a condition in real time.
func eventually(t testing.TB, what string, cond func() bool) {
	t.Helper()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	end := time.NewTimer(30 * time.Second)
	defer end.Stop()
	for !cond() {
		select {
		case <-tick.C:
		case <-end.C:
			t.Fatalf("%s: not within 30s", what)
		}
	}
}

// empty reports what r still keeps of any transaction.
func (r *Recovery) empty() (tasks, tries, bundles, queued int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, l := range r.lanes.byName {
		queued += l.queued() + l.running + l.backingOff
	}
	return len(r.pending.transactions), len(r.attempts), len(r.reporter.batches), queued + r.pending.inbox.Len() + r.calls.running + r.calls.reserved
}

// wantEmpty checks that nothing is kept of finished transactions.
func wantEmpty(t testing.TB, r *Recovery) {
	t.Helper()
	if tasks, tries, bundles, queued := r.empty(); tasks+tries+bundles+queued != 0 {
		t.Errorf("still remembered: %d tasks, %d tries, %d bundles, %d queued", tasks, tries, bundles, queued)
	}
}
