package cluster

import (
	"context"
	"time"

	"github.com/txmgr/txmgr/internal/rig"
)

// waitTimeout bounds every wait for something that should not take long. It is long
// because a shared disk can stall; nothing is measured by it.
const waitTimeout = 90 * time.Second

// eventually is [rig.Retry] within a bound, whose end fails the test.
func (b *testCluster) eventually(within time.Duration, what string, try func(context.Context) error) {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(b.t.Context()), within)
	defer cancel()
	start := time.Now()
	if err := rig.Retry(ctx, func() error { return try(ctx) }); err != nil {
		b.t.Fatalf("after %v: %s: %v", time.Since(start).Round(time.Millisecond), what, err)
	}
	b.events.Note("after %v: %s", time.Since(start).Round(time.Millisecond), what)
}
