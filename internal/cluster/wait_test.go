package cluster

import (
	"context"
	"time"

	"github.com/txmgr/txmgr/internal/rig"
)

// patience bounds every wait for something that should not take long. It is long
// because a shared disk can stall; nothing is measured by it.
const patience = 90 * time.Second

// soon is [rig.Until] within a bound, whose end fails the test.
func (b *bed) soon(within time.Duration, what string, try func(context.Context) error) {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(b.t.Context()), within)
	defer cancel()
	start := time.Now()
	if err := rig.Until(ctx, func() error { return try(ctx) }); err != nil {
		b.t.Fatalf("after %v: %s: %v", time.Since(start).Round(time.Millisecond), what, err)
	}
	b.log.Note("after %v: %s", time.Since(start).Round(time.Millisecond), what)
}
