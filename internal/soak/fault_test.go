package soak

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/txmgr/txmgr/internal/rig"
)

// fault is a kind of fault. inject returns when the fault has ended, and describes it; an error
// means that it was not injected.
type fault struct {
	name          string
	needsElection bool // it makes an election necessary
	inject        func(ctx context.Context, b *testEnv) (what string, err error)
}

// nodeFaults affect nodes, one at a time, so that there is always a majority. Each ends when the
// cluster is healthy again. serviceFaults are injected meanwhile.
var (
	nodeFaults = []fault{
		{"kill the leader", true, func(ctx context.Context, b *testEnv) (string, error) {
			leader, _, err := b.roles(ctx)
			if err != nil {
				return "", err
			}
			down := between(0, 2*time.Second)
			return fmt.Sprintf("%s, down for %v", leader.Name, down.Round(time.Millisecond)), leader.Restart(ctx, down)
		}},
		{"halt a follower", false, func(ctx context.Context, b *testEnv) (string, error) {
			_, followers, err := b.roles(ctx)
			if err != nil {
				return "", err
			}
			n, d := oneOf(followers...), between(time.Second, 6*time.Second)
			return fmt.Sprintf("%s, for %v", n.Name, d.Round(time.Millisecond)), n.Suspend(ctx, d, nil)
		}},
		{"hand leadership over", true, func(ctx context.Context, b *testEnv) (string, error) {
			m := b.open(b.allURLs(), 10*time.Second, false)
			defer m.Close()
			return "", b.calls.call("TransferLeader", ctx, func() error { return m.Admin().TransferLeader(ctx, "", "soak", "") })
		}},
		{"rolling restart", true, func(ctx context.Context, b *testEnv) (string, error) {
			for _, i := range rand.Perm(size) {
				n := b.nodes[i]
				if err := n.Stop(rig.WaitTimeout); err != nil {
					b.t.Errorf("rolling restart: %v", err)
				}
				if err := errors.Join(n.Start(ctx), b.checkHealthy(ctx)); err != nil {
					return "", err
				}
			}
			return "", nil
		}},
	}
	serviceFaults = []fault{
		{"the service answers 500", false, func(ctx context.Context, b *testEnv) (string, error) {
			v := b.money.vault
			before := v.failedCount.Load()
			v.failPercent.Store(oneOf[int32](30, 100))
			rig.Sleep(ctx, between(time.Second, 3*time.Second))
			v.failPercent.Store(0)
			return counted(v.failedCount.Load() - before)
		}},
		{"the service hangs", false, func(ctx context.Context, b *testEnv) (string, error) {
			v := b.money.vault
			before := v.hungCount.Load()
			v.hangPercent.Store(oneOf[int32](30, 100))
			rig.Sleep(ctx, between(time.Second, 4*time.Second))
			v.hangPercent.Store(0)
			return counted(v.hungCount.Load() - before)
		}},
	}
)

func counted(n int64) (string, error) {
	if n == 0 {
		return "", errors.New("nobody called it")
	}
	return fmt.Sprintf("%d requests", n), nil
}

// injectFaults injects faults until ctx ends, each kind before any is repeated, and returns when
// the last one has ended. A kind that was not injected by then is tried again.
func (b *testEnv) injectFaults(ctx context.Context) {
	var storming sync.WaitGroup
	storming.Go(func() { b.series(ctx, nodeFaults, 2*time.Second) })
	storming.Go(func() { b.series(ctx, serviceFaults, 3*time.Second) })
	storming.Wait()
}

func (b *testEnv) series(ctx context.Context, faults []fault, rest time.Duration) {
	for round := rand.Perm(len(faults)); rig.Sleep(ctx, between(rest, 2*rest)); round = round[1:] {
		if len(round) == 0 {
			round = rand.Perm(len(faults))
		}
		b.injectFault(faults[round[0]], len(faults) == len(nodeFaults))
	}
}

// injectFault injects a fault, and returns when it has ended.
func (b *testEnv) injectFault(f fault, nodes bool) {
	ctx := b.loadCtx
	end := func() {}
	if nodes {
		end = b.disturbances.begin(f.name, f.needsElection)
	}
	defer end()
	what, err := f.inject(ctx, b)
	if err == nil && nodes {
		if err := b.checkHealthy(ctx); err != nil && ctx.Err() == nil {
			b.t.Errorf("after %q: %v", f.name, err)
		}
	}
	b.events.FaultInjected(f.name, what, err)
}

func faultNames() (names []string) {
	for _, f := range append(append([]fault{}, nodeFaults...), serviceFaults...) {
		names = append(names, f.name)
	}
	return names
}
