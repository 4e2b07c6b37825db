package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/txmgr/txmgr/bench/peers/internal/rig"
	"github.com/txmgr/txmgr/bench/peers/internal/slowdisk"
)

// roundLimit is the longest that a round of one contender may take beyond its span: a database or a
// coordinator that does not answer ends the run.
const roundLimit = 2 * time.Minute

// measure compares the contenders, and prints the result.
func measure(ctx context.Context, o options) (err error) {
	dir, err := scratch(o.dir)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	others, err := rig.WatchExternalLoad()
	if err != nil {
		return err
	}
	r := report{Condition: rig.RecordCondition(dir).Named("go -C bench/peers run ./cmd/overhead"), Delay: o.delay, Rounds: o.rounds}
	if err := r.contest(ctx, dir, o); err != nil {
		return err
	}
	r.Condition.End()
	share, err := others.Share()
	if err != nil {
		return err
	}
	r.Condition.Share = &share
	r.summarise()
	if err := writeJSON(o.json, r); err != nil {
		return err
	}
	return r.print(os.Stdout)
}

// contest measures everything. All that it has started has ended when it returns.
func (r *report) contest(ctx context.Context, dir string, o options) (err error) {
	var disk *slowdisk.Disk
	if o.delay > 0 {
		if disk, err = slowdisk.Start(); err != nil {
			return err
		}
	}
	f, err := startContest(ctx, dir, o)
	defer func() { err = errors.Join(err, f.close()) }()
	if err != nil {
		return err
	}
	if disk != nil {
		disk.SetDelay(o.delay)
		defer disk.SetDelay(0) // the servers end without it
	}
	if r.Versions, err = f.versions(ctx); err != nil {
		return err
	}
	if r.DiskBefore, err = rig.Flushes(dir, 300); err != nil {
		return err
	}
	progressf("the disk makes a page durable in: %v", r.DiskBefore)
	if err := r.rounds(ctx, f, disk, o); err != nil {
		return err
	}
	if r.DiskAfter, err = rig.Flushes(dir, 300); err != nil {
		return err
	}
	return r.check(ctx, f)
}

// scratch creates a directory that the databases' accounts can reach, too.
func scratch(parent string) (string, error) {
	dir, err := os.MkdirTemp(parent, "txmgr-overhead-")
	if err == nil {
		err = os.Chmod(dir, 0o755)
	}
	return dir, err
}

// rounds gives every row its turn in each round.
func (r *report) rounds(ctx context.Context, f *contest, disk *slowdisk.Disk, o options) error {
	r.Rows = rowsOf(o.contenders, o.workers)
	for n := range o.rounds {
		for _, row := range turns(r.Rows) {
			if err := f.awaitPruned(ctx); err != nil {
				return err
			}
			m, err := row.round(ctx, f, disk, o.span)
			if err != nil {
				return fmt.Errorf("%s, %d workers: %w", row.Name, row.Workers, err)
			}
			progressf("round %d of %d: %-31s %2d workers: %6.0f/s, %v", n+1, o.rounds, row.Name, row.Workers, m.PerSecond, m.Latencies)
			row.Results = append(row.Results, m)
		}
	}
	return nil
}

// round measures a contender once.
func (r *row) round(ctx context.Context, f *contest, disk *slowdisk.Disk, span time.Duration) (m round, err error) {
	ctx, cancel := context.WithTimeoutCause(ctx, span+span/5+roundLimit, errors.New("the round takes too long"))
	defer cancel()
	s := f.sites[r.Place]
	w := r.work(s)
	var at [2]reading
	var failed error
	n := 0
	meter := func() {
		var err error
		at[n], err = f.read(ctx, s, disk)
		failed = errors.Join(failed, err)
		if n++; n == 1 && w.relay != nil {
			w.relay.count()
		}
	}
	stop := func() error { return nil }
	if w.relay != nil {
		stop = beside(ctx, w.relay.run)
	}
	m.Sample, err = rig.Load{Callers: r.Workers, Warm: span / 5, Span: span, Pair: w.once, Meter: meter}.Run(ctx)
	if err = errors.Join(err, stop(), failed); err != nil {
		return m, err
	}
	m.CPU = at[1].usage.since(at[0].usage, m.Pairs)
	if s.coordinator != nil {
		l := at[1].logged.since(at[0].logged, m.Pairs)
		m.Log = &l
	}
	if w.relay != nil {
		m.Delivered = w.relay.delays()
	}
	return m, nil
}

// beside runs something until the returned function is called, which returns its error.
func beside(ctx context.Context, run func(context.Context) error) (stop func() error) {
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan error, 1)
	go func() { done <- run(ctx) }()
	return func() error {
		cancel()
		return <-done
	}
}
