package embedded

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"runtime/pprof"
	"time"

	"github.com/hashicorp/raft"

	"github.com/txmgr/txmgr/bench/peers/internal/rig"
	"github.com/txmgr/txmgr/node"
	"github.com/txmgr/txmgr/raftfsm/logstore"
	"github.com/txmgr/txmgr/txn"
	"github.com/txmgr/txmgr/txn/admin"
)

// worker is one node and the requests to measure it.
type worker struct {
	dir     string
	cluster *node.Cluster
	node    *node.Node
	profile *os.File
}

// Work serves requests with a node in dir until there are no more.
func Work(orders io.Reader, answers io.Writer, dir string) (err error) {
	w := &worker{dir: dir}
	defer func() { err = errors.Join(err, w.close()) }()
	return rig.Serve(orders, answers, w.execute)
}

func (w *worker) execute(ctx context.Context, o request) (a response, err error) {
	switch o.Do {
	case "open":
		w.cluster = o.Cluster
		err = w.open(ctx)
	case "status":
		var s admin.Status
		s, err = w.node.Admin().Status(ctx)
		a.Status = &s
	case "pairs":
		a.Pairs, err = w.pairs(ctx, o.Callers, o.Span)
	case "group":
		a.Group, err = w.group(ctx, o.Count, o.Lead)
	case "sizes":
		a.Sizes, err = w.sizes(ctx, o.First, o.Last)
	case "profile":
		err = w.profiled(o.File)
	default:
		err = fmt.Errorf("order %q is none", o.Do)
	}
	return a, err
}

// open starts the node as an application would, with the default settings.
func (w *worker) open(ctx context.Context) (err error) {
	level := slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelError})
	w.node, err = node.Open(ctx, node.Config{DataDir: w.dir, Cluster: w.cluster, Logger: slog.New(level)})
	return err
}

func (w *worker) close() error {
	if w.node == nil {
		return nil
	}
	return w.node.Close()
}

// pair is one transaction without branches.
func (w *worker) pair(ctx context.Context, _ int) error {
	b, err := w.node.Begin(ctx, txn.Options{Name: "transfer"})
	if err != nil {
		return err
	}
	_, err = w.node.Commit(ctx, b.ID, txn.CommitRequest{})
	return err
}

func (w *worker) pairs(ctx context.Context, callers int, span time.Duration) (*Pairs, error) {
	var read [2]admin.Status
	var cpu [2]time.Duration
	var failed error
	n := 0
	meter := func() {
		var errs [2]error
		read[n], errs[0] = w.node.Admin().Status(ctx)
		cpu[n], errs[1] = rig.OwnCPU()
		failed = errors.Join(failed, errs[0], errs[1])
		n++
	}
	s, err := rig.Load{Callers: callers, Warm: span / 5, Span: span, Pair: w.pair, Meter: meter}.Run(ctx)
	if err = errors.Join(err, failed); err != nil {
		return nil, err
	}
	a, b := read[0], read[1]
	return &Pairs{
		Sample:   s,
		Commands: b.Commands - a.Commands, Entries: b.Entries - a.Entries, Syncs: b.Syncs - a.Syncs,
		LeaderCPU: (cpu[1] - cpu[0]) / time.Duration(s.Pairs),
	}, nil
}

// sizes closes the node, so that it may read its log, and opens it again.
func (w *worker) sizes(ctx context.Context, first, last uint64) (sizes []int, err error) {
	if err := w.caughtUp(ctx, last); err != nil {
		return nil, err
	}
	if err := w.node.Close(); err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, w.open(ctx)) }()
	log, err := logstore.Open(filepath.Join(w.dir, "log.db"), logstore.Options{})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, log.Close()) }()
	for i := first; i <= last; i++ {
		var l raft.Log
		if err := log.GetLog(i, &l); err != nil {
			return nil, fmt.Errorf("entry %d: %w", i, err)
		}
		sizes = append(sizes, len(l.Data))
	}
	return sizes, nil
}

// caughtUp waits until this node has applied the entry.
func (w *worker) caughtUp(ctx context.Context, index uint64) error {
	ticker := time.NewTicker(10 * time.Millisecond)
	defer ticker.Stop()
	for began := time.Now(); ; <-ticker.C {
		s, err := w.node.Admin().Status(ctx)
		if err != nil || s.LogIndex >= index {
			return err
		}
		if time.Since(began) > time.Minute {
			return fmt.Errorf("a minute later this node's log reaches to %d, not to %d", s.LogIndex, index)
		}
	}
}

func (w *worker) profiled(file string) error {
	if w.profile != nil {
		pprof.StopCPUProfile()
		err := w.profile.Close()
		w.profile = nil
		return err
	}
	if file == "" {
		return nil
	}
	var err error
	if w.profile, err = os.Create(file); err != nil {
		return err
	}
	return pprof.StartCPUProfile(w.profile)
}
