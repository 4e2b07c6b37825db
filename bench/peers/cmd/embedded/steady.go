package main

import (
	"context"
	"fmt"
	"io/fs"
	"path/filepath"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/txmgr/txmgr/bench/peers/internal/rig"
	"github.com/txmgr/txmgr/txn"
	"github.com/txmgr/txmgr/txn/admin"
)

// pair is one transaction without branches.
func (w *worker) pair(ctx context.Context, _ int) error {
	b, err := w.node.Begin(ctx, txn.Options{Name: "transfer"})
	if err != nil {
		return err
	}
	_, err = w.node.Commit(ctx, b.ID, txn.CommitRequest{})
	return err
}

// reading is the counters of a node and its process at one moment.
type reading struct {
	status  admin.Status
	cpu     time.Duration
	written int64
}

func (w *worker) read(ctx context.Context) (r reading, err error) {
	if r.status, err = w.node.Admin().Status(ctx); err != nil {
		return r, err
	}
	if r.cpu, err = rig.OwnCPU(); err != nil {
		return r, err
	}
	r.written, err = rig.Written()
	return r, err
}

func (w *worker) pairs(ctx context.Context, callers int, span time.Duration) (*pairs, error) {
	var readings []reading
	var failed error
	meter := func() {
		r, err := w.read(ctx)
		if err != nil {
			failed = err
		}
		readings = append(readings, r)
	}
	s, err := rig.Load{Callers: callers, Warm: span / 5, Span: span, Pair: w.pair, Meter: meter}.Run(ctx)
	if err == nil {
		err = failed
	}
	if err != nil {
		return nil, err
	}
	a, b := readings[0], readings[1]
	return &pairs{
		Sample:   s,
		Commands: b.status.Commands - a.status.Commands, Entries: b.status.Entries - a.status.Entries, Syncs: b.status.Syncs - a.status.Syncs,
		CPU: (b.cpu - a.cpu) / time.Duration(s.Pairs), Written: b.written - a.written,
		Open: b.status.Undecided, Finished: b.status.Finished, LogBytes: uint64(b.status.LogBytes),
	}, nil
}

// spread is the number of different deadlines of the open transactions.
const spread = 1000

// farAway is the earliest of these deadlines: none is reached while this program runs.
const farAway = 2 * time.Hour

// fill begins transactions that stay open.
func (w *worker) fill(ctx context.Context, count, branches int) error {
	s, err := w.node.Admin().Status(ctx)
	if err != nil {
		return err
	}
	return w.begin(ctx, count, branches, func(i int) time.Duration {
		return farAway + time.Duration(i%spread)*time.Duration(s.Interval)
	})
}

// begin begins count transactions with 512 callers.
func (w *worker) begin(ctx context.Context, count, branches int, timeout func(i int) time.Duration) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	enlistments := w.enlistments(branches)
	var next atomic.Int64
	var wg sync.WaitGroup
	for range 512 {
		wg.Go(func() {
			for ctx.Err() == nil {
				i := int(next.Add(1)) - 1
				if i >= count {
					return
				}
				if _, err := w.node.Begin(ctx, txn.Options{Name: "transfer", Timeout: timeout(i), Branches: enlistments}); err != nil {
					cancel(err)
				}
			}
		})
	}
	wg.Wait()
	return context.Cause(ctx)
}

func (w *worker) memory() (*memory, error) {
	runtime.GC()
	runtime.GC()
	var m memory
	// No calls are made meanwhile, so the time is the collector's.
	for range 5 {
		before, err := rig.OwnCPU()
		if err != nil {
			return nil, err
		}
		runtime.GC()
		after, err := rig.OwnCPU()
		if err != nil {
			return nil, err
		}
		m.Collections = append(m.Collections, after-before)
	}
	var stats runtime.MemStats
	runtime.ReadMemStats(&stats)
	m.Heap = int64(stats.HeapAlloc)
	var err error
	m.Resident, err = rig.Resident()
	return &m, err
}

func (w *worker) idle(ctx context.Context, span time.Duration) (*idle, error) {
	groups, err := w.node.Admin().DeadlineGroups(ctx, admin.DeadlineGroupRange{})
	if err != nil {
		return nil, err
	}
	a, err := w.read(ctx)
	if err != nil {
		return nil, err
	}
	<-time.After(span)
	b, err := w.read(ctx)
	if err != nil {
		return nil, err
	}
	return &idle{
		Span: span, CPU: b.cpu - a.cpu, Entries: b.status.Entries - a.status.Entries, Written: b.written - a.written,
		Groups: len(groups.Groups), Open: b.status.Undecided, Checkpoint: 10 * time.Second,
	}, nil
}

// restart closes the node and opens it again.
func (w *worker) restart(ctx context.Context) (*restartResult, error) {
	before, err := w.node.Admin().Status(ctx)
	if err != nil {
		return nil, err
	}
	if err := w.node.Close(); err != nil {
		return nil, err
	}
	var s restartResult
	if s.Log, err = size(w.dir); err != nil {
		return nil, err
	}
	began := time.Now()
	if err := w.open(); err != nil {
		return nil, err
	}
	s.Took = time.Since(began)
	after, err := w.node.Admin().Status(ctx)
	if err != nil {
		return nil, err
	}
	if s.Open = after.Undecided; s.Open != before.Undecided {
		return nil, fmt.Errorf("%d transactions are open after the restart; %d were before it", s.Open, before.Undecided)
	}
	return &s, nil
}

func size(dir string) (n int64, err error) {
	err = filepath.WalkDir(dir, func(_ string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		i, err := d.Info()
		if err == nil {
			n += i.Size()
		}
		return err
	})
	return n, err
}
