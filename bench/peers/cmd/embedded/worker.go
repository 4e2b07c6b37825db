package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"sync"
	"time"

	"github.com/hashicorp/go-metrics"

	"github.com/txmgr/txmgr/bench/peers/internal/rig"
	"github.com/txmgr/txmgr/node"
	"github.com/txmgr/txmgr/participant"
	"github.com/txmgr/txmgr/txn"
)

// worker is one node and the requests to measure it.
type worker struct {
	dir  string
	node *node.Node
	raft *raftMeter
}

// work serves requests until there are no more.
func work(orders io.Reader, answers io.Writer, dir string) (err error) {
	w := &worker{dir: dir, raft: new(raftMeter)}
	conf := metrics.DefaultConfig("")
	conf.EnableHostname, conf.EnableRuntimeMetrics = false, false
	if _, err := metrics.NewGlobal(conf, w.raft); err != nil {
		return err
	}
	if err := w.open(); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, w.node.Close()) }()
	return rig.Serve(orders, answers, w.execute)
}

func (w *worker) execute(ctx context.Context, o request) (a response, err error) {
	switch o.Do {
	case "pairs":
		a.Pairs, err = w.pairs(ctx, o.Callers, o.Span)
	case "fill":
		err = w.fill(ctx, o.Count, o.Branches)
	case "memory":
		a.Memory, err = w.memory()
	case "snapshot":
		a.Pauses, err = w.snapshot(ctx, o.Callers)
	case "idle":
		a.Idle, err = w.idle(ctx, o.Span)
	case "group":
		a.Group, err = w.group(ctx, o.Count, o.Branches, o.Lead)
	case "restart":
		a.Restart, err = w.restart(ctx)
	default:
		err = fmt.Errorf("order %q is none", o.Do)
	}
	return a, err
}

// open starts the node as an application would, with the default settings.
func (w *worker) open() (err error) {
	level := slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn})
	w.node, err = node.Open(context.Background(), node.Config{
		DataDir: w.dir, Logger: slog.New(level),
		Participants: map[string]participant.Participant{participants[0]: nopParticipant{}, participants[1]: nopParticipant{}},
	})
	return err
}

var participants = [...]string{"orders", "payments"}

// nopParticipant is a participant that costs nothing: it answers every call with success.
type nopParticipant struct{}

func (nopParticipant) Commit(context.Context, participant.Branch) (participant.Result, error) {
	return participant.Result{Outcome: participant.Committed}, nil
}

func (nopParticipant) Rollback(context.Context, participant.Branch) (participant.Result, error) {
	return participant.Result{Outcome: participant.RolledBack}, nil
}

func (nopParticipant) Prepared(context.Context, string) ([]participant.Prepared, error) {
	return nil, nil
}

func (nopParticipant) Check(context.Context) error { return nil }

func (nopParticipant) Close() error { return nil }

// raftMeter reads raft's metrics. It keeps how long the latest snapshot blocked the state machine,
// which is not visible elsewhere.
type raftMeter struct {
	metrics.BlackholeSink
	mu    sync.Mutex
	pause time.Duration
}

func (m *raftMeter) AddSampleWithLabels(key []string, v float32, _ []metrics.Label) {
	if len(key) != 3 || key[1] != "fsm" || key[2] != "snapshot" {
		return
	}
	m.mu.Lock()
	m.pause = time.Duration(float64(v) * float64(time.Millisecond))
	m.mu.Unlock()
}

func (m *raftMeter) AddSample(key []string, v float32) { m.AddSampleWithLabels(key, v, nil) }

func (m *raftMeter) snapshotPause() time.Duration {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.pause
}

func (w *worker) enlistments(n int) []txn.Enlistment {
	out := make([]txn.Enlistment, n)
	for i := range out {
		out[i].Participant = participants[i]
	}
	return out
}
