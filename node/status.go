package node

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/txmgr/txmgr/recovery"
	"github.com/txmgr/txmgr/txn"
	"github.com/txmgr/txmgr/txn/admin"
	"github.com/txmgr/txmgr/txn/machine"
)

// Participants implements [admin.Participants].
func (n adminCalls) Participants(ctx context.Context) ([]admin.ParticipantStatus, error) {
	if err := n.requireReadable(ctx); err != nil {
		return nil, txn.Wrap("participant list", txn.ID{}, err)
	}
	out := []admin.ParticipantStatus{}
	n.fsm.View(func(m *machine.Machine) {
		for _, r := range m.Participants() {
			if !r.Removed {
				out = append(out, admin.ParticipantStatus{Participant: r.Participant, Healthy: true})
			}
		}
	})
	if r := n.recovery(); r != nil {
		for i := range out {
			h := r.Health(out[i].Name)
			out[i].Healthy, out[i].LastError, out[i].NextTry = h.Healthy, h.LastError, txn.Duration(h.NextTry)
			out[i].Queued, out[i].Running = h.Queued, h.Running
			out[i].Since, out[i].ProbeTook = h.Since.UTC(), txn.Duration(h.Took)
			out[i].Optimizer, out[i].Limit, out[i].Throughput = h.Optimizer, h.Limit, h.Throughput
			out[i].Mean, out[i].P99 = txn.Duration(h.Mean), txn.Duration(h.P99)
			out[i].Raised, out[i].Lowered = h.Raised, h.Lowered
			if !h.Last.At.IsZero() {
				last := poolDecision(h.Last)
				out[i].Decision = &last
			}
		}
	}
	return out, nil
}

// maxConcurrentScans is how many participants are scanned at the same time: one that does not
// answer takes several call timeouts.
const maxConcurrentScans = 8

// Scan implements [admin.InDoubts].
func (n adminCalls) Scan(ctx context.Context, participant string, apply bool) ([]admin.ScanResult, error) {
	r := n.recovery()
	if r == nil {
		return nil, &txn.Error{Op: "recover scan", Err: txn.ErrUnavailable, Detail: "this node does not lead"}
	}
	check := r.InspectLocks
	if apply {
		check = func(ctx context.Context, name string) ([]admin.ScanResult, error) { return r.Sweep(ctx, name, true) }
	}
	if participant == "" {
		return n.scanAll(ctx, check)
	}
	if _, ok := n.registration(participant); !ok {
		return nil, &txn.Error{Op: "recover scan", Err: txn.ErrNotFound, Detail: machine.NotRegistered(participant)}
	}
	found, err := check(ctx, participant)
	if err != nil {
		err = txn.Wrap("recover scan", txn.ID{}, fmt.Errorf("participant %q: %w", participant, err))
	}
	return append([]admin.ScanResult{}, found...), err
}

// scanAll returns the results in the order of the participants. The error is not about a
// participant.
func (n adminCalls) scanAll(ctx context.Context, check func(context.Context, string) ([]admin.ScanResult, error)) ([]admin.ScanResult, error) {
	names := n.recoveryLog().Participants()
	found := make([][]admin.ScanResult, len(names))
	slots := make(chan struct{}, maxConcurrentScans)
	var wg sync.WaitGroup
	for i, name := range names {
		slots <- struct{}{}
		wg.Go(func() {
			defer func() { <-slots }()
			var err error
			if found[i], err = check(ctx, name); err != nil {
				found[i] = append(found[i], recovery.Unreachable(name, err))
			}
		})
	}
	wg.Wait()
	all := append([]admin.ScanResult{}, slices.Concat(found...)...)
	err := n.requireLeader()
	if ctx.Err() != nil {
		err = fmt.Errorf("%w: %w before all participants had answered", txn.ErrUnavailable, context.Cause(ctx))
	}
	if err != nil {
		return all, txn.Wrap("recover scan", txn.ID{}, err)
	}
	return all, nil
}

// Status implements [admin.Cluster].
func (n adminCalls) Status(ctx context.Context) (admin.Status, error) {
	written := n.proposals.Stats()
	leader, leaderID := n.raft.LeaderWithID()
	tick, _ := n.clock.Now()
	s := admin.Status{
		Node: string(n.env.ID), Leader: n.isLeader(), LeaderID: string(leaderID), Version: Version(),
		Term: n.raft.CurrentTerm(), LogIndex: n.raft.LastIndex(), Tick: uint64(tick),
		Uptime:   txn.Duration(time.Since(n.measured.started).Round(time.Millisecond)),
		Commands: written.Commands, Entries: written.Entries, TickEntries: written.TickEntries,
	}
	if leader == "" {
		s.LeaderID = ""
	}
	n.fsm.View(func(m *machine.Machine) {
		boot, _ := m.Bootstrap()
		c := m.Counts()
		s.Incarnation, s.RecoveryPaused = m.Incarnation(), m.RecoveryPaused()
		s.Cluster, s.Interval = boot.Cluster, txn.Duration(boot.Interval)
		s.Undecided, s.Delegated, s.Completing, s.Finished, s.Heuristics = c.Undecided, c.Delegated, c.Completing, c.Finished, c.Heuristics
		s.Committed, s.RolledBack, s.TimedOut = c.Committed, c.RolledBack.Sum(), c.RolledBack[txn.CauseTimeout]
		s.RolledBackBy = make(map[txn.Cause]uint64)
		for _, cause := range txn.Causes() {
			s.RolledBackBy[cause] = c.RolledBack[cause]
		}
		s.Sessions, s.SessionsExpired = c.Sessions, c.SessionsExpired
	})
	s.Members = n.cluster.Members()
	s.WaitingFor = n.cluster.WaitsFor()
	stats, err := n.env.Log.Stats()
	if err != nil {
		return s, txn.Wrap("status", txn.ID{}, err)
	}
	s.Syncs, s.LogBytes = stats.Syncs, stats.FileBytes
	if s.Leader {
		if s.Participants, err = n.Participants(txn.AllowStale(ctx)); err != nil {
			return s, err
		}
	}
	return s, nil
}
