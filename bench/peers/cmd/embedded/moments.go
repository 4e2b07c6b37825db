package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/txmgr/txmgr/bench/peers/internal/rig"
	"github.com/txmgr/txmgr/txn"
	"github.com/txmgr/txmgr/txn/admin"
)

// snapshot takes a snapshot under load, and then measures the same load for as long without one.
func (w *worker) snapshot(ctx context.Context, callers int) (*pauses, error) {
	p := new(pauses)
	during, err := w.under(ctx, callers, func() error {
		began := time.Now()
		err := w.node.Snapshot()
		p.Snapshot = time.Since(began)
		return err
	})
	if err != nil {
		return nil, err
	}
	p.During, p.Pause = during, w.raft.snapshotPause()
	if p.Pause == 0 {
		return nil, fmt.Errorf("raft did not tell how long the snapshot took")
	}
	p.Without, err = rig.Load{Callers: callers, Warm: 500 * time.Millisecond, Span: p.Snapshot, Pair: w.pair}.Run(ctx)
	if err != nil {
		return nil, err
	}
	p.Bytes, err = newestSnapshot(w.dir)
	return p, err
}

// under measures pairs while fn runs.
func (w *worker) under(ctx context.Context, callers int, fn func() error) (rig.Sample, error) {
	failed, over := make(chan error, 1), make(chan struct{})
	begin := sync.OnceFunc(func() {
		go func() {
			failed <- fn()
			close(over)
		}()
	})
	s, err := rig.Load{Callers: callers, Warm: 500 * time.Millisecond, Until: over, Pair: w.pair, Meter: begin}.Run(ctx)
	return s, errors.Join(err, <-failed)
}

func newestSnapshot(dir string) (size int64, err error) {
	files, err := filepath.Glob(filepath.Join(dir, "snapshots", "*", "state.bin"))
	if err != nil || len(files) == 0 {
		return 0, fmt.Errorf("no snapshot below %s: %w", dir, err)
	}
	var newest time.Time
	for _, f := range files {
		i, err := os.Stat(f)
		if err != nil {
			return 0, err
		}
		if i.ModTime().After(newest) {
			newest, size = i.ModTime(), i.Size()
		}
	}
	return size, nil
}

// group begins many transactions with one deadline.
func (w *worker) group(ctx context.Context, count, branches int, lead time.Duration) (*deadlineGroup, error) {
	expiry, at, interval, err := w.calibrate(ctx, branches, lead)
	if err != nil {
		return nil, err
	}
	// Half an interval before the tick: neither the duration of a call nor the rounding moves it
	// into another group.
	deadline := at.Add(-interval / 2)
	if err := w.begin(ctx, count-1, branches, func(int) time.Duration { return time.Until(deadline) }); err != nil {
		return nil, fmt.Errorf("a longer -lead may help: %w", err)
	}
	g, err := w.node.Admin().DeadlineGroups(ctx, admin.DeadlineGroupRange{})
	if err != nil {
		return nil, err
	}
	members := 0
	for _, one := range g.Groups {
		if one.ExpiryTick == expiry {
			members = one.Transactions
		}
	}
	if members < count*99/100 {
		return nil, fmt.Errorf("only %d of %d transactions are in the group of tick %d: the machine is too busy to aim; a longer -lead may help", members, count, expiry)
	}
	return w.watch(ctx, members, branches, at)
}

// calibrate begins one transaction, and returns the time of the tick that ends it.
func (w *worker) calibrate(ctx context.Context, branches int, lead time.Duration) (expiry uint64, at time.Time, interval time.Duration, err error) {
	b, err := w.node.Begin(ctx, txn.Options{Name: "transfer", Timeout: lead, Branches: w.enlistments(branches)})
	if err != nil {
		return 0, at, 0, err
	}
	g, err := w.node.Admin().DeadlineGroups(ctx, admin.DeadlineGroupRange{})
	if err != nil {
		return 0, at, 0, err
	}
	for _, one := range g.Groups {
		if one.ExpiryTick == b.ExpiryTick {
			return b.ExpiryTick, time.Now().Add(time.Duration(one.ExpiresIn)), time.Duration(g.Interval), nil
		}
	}
	return 0, at, 0, fmt.Errorf("tick %d has no group", b.ExpiryTick)
}

// watch reads every millisecond what has been decided.
func (w *worker) watch(ctx context.Context, members, branches int, at time.Time) (*deadlineGroup, error) {
	<-time.After(time.Until(at) - 100*time.Millisecond)
	before, err := w.node.Admin().Status(ctx)
	if err != nil {
		return nil, err
	}
	g := &deadlineGroup{Count: members, Branches: branches}
	ticker := time.NewTicker(time.Millisecond)
	defer ticker.Stop()
	for range ticker.C {
		s, err := w.node.Admin().Status(ctx)
		if err != nil {
			return nil, err
		}
		if g.Decided == 0 && s.TimedOut-before.TimedOut >= uint64(members) {
			g.Decided = time.Since(at)
			g.Entries, g.Empty = s.Entries-before.Entries, s.TickEntries-before.TickEntries
		}
		if g.Decided > 0 && s.Completing == 0 {
			g.Finished, g.All = time.Since(at), s.Entries-before.Entries
			return g, nil
		}
		if time.Since(at) > 10*time.Minute {
			return nil, fmt.Errorf("10 minutes after the tick %d of %d are decided and %d are completing", s.TimedOut-before.TimedOut, members, s.Completing)
		}
	}
	return nil, ctx.Err()
}
