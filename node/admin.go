package node

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/txmgr/txmgr/recovery"
	"github.com/txmgr/txmgr/txn"
	"github.com/txmgr/txmgr/txn/machine"
)

// Participants shows the registered participants and how they fare here.
func (n *Node) Participants(ctx context.Context) ([]txn.ParticipantStatus, error) {
	if err := n.readable(ctx); err != nil {
		return nil, txn.Wrap("participant list", txn.ID{}, err)
	}
	out := []txn.ParticipantStatus{}
	n.fsm.View(func(m *machine.Machine) {
		for _, r := range m.Participants() {
			if !r.Removed {
				out = append(out, txn.ParticipantStatus{Participant: r.Participant, Healthy: true})
			}
		}
	})
	if r := n.recovery.Load(); r != nil {
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

// scansAtOnce is how many participants are scanned at the same time: one that hangs
// takes several call timeouts.
const scansAtOnce = 8

// Scan compares what is prepared at a participant, or at all when the name is
// empty, with the log. With apply it finishes what it may; without, it also tells
// what is locked, who waits for it, and what others have prepared there. One among
// all that cannot be looked at is told of by a finding of its own, see
// [recovery.Unseen]; the one that is named, by the error.
func (n *Node) Scan(ctx context.Context, participant string, apply bool) ([]txn.Finding, error) {
	r := n.recovery.Load()
	if r == nil {
		return nil, &txn.Error{Op: "recover scan", Err: txn.ErrUnavailable, Detail: "this node does not lead"}
	}
	look := r.Survey
	if apply {
		look = func(ctx context.Context, name string) ([]txn.Finding, error) { return r.Sweep(ctx, name, true) }
	}
	if participant == "" {
		return n.scanAll(ctx, look)
	}
	if _, ok := n.registration(participant); !ok {
		return nil, &txn.Error{Op: "recover scan", Err: txn.ErrNotFound, Detail: machine.NotRegistered(participant)}
	}
	found, err := look(ctx, participant)
	if err != nil {
		err = txn.Wrap("recover scan", txn.ID{}, fmt.Errorf("participant %q: %w", participant, err))
	}
	return append([]txn.Finding{}, found...), err
}

// scanAll gives what was found in the order of the participants. The error is none of
// theirs.
func (n *Node) scanAll(ctx context.Context, look func(context.Context, string) ([]txn.Finding, error)) ([]txn.Finding, error) {
	names := log{n}.Participants()
	found := make([][]txn.Finding, len(names))
	turns := make(chan struct{}, scansAtOnce)
	var wg sync.WaitGroup
	for i, name := range names {
		turns <- struct{}{}
		wg.Go(func() {
			defer func() { <-turns }()
			var err error
			if found[i], err = look(ctx, name); err != nil {
				found[i] = append(found[i], recovery.Unseen(name, err))
			}
		})
	}
	wg.Wait()
	all := append([]txn.Finding{}, slices.Concat(found...)...)
	err := n.serves()
	if ctx.Err() != nil {
		err = fmt.Errorf("%w: %w before all participants had answered", txn.ErrUnavailable, context.Cause(ctx))
	}
	if err != nil {
		return all, txn.Wrap("recover scan", txn.ID{}, err)
	}
	return all, nil
}

// Status shows the node at a glance.
func (n *Node) Status(ctx context.Context) (txn.Status, error) {
	leader, leaderID := n.raft.LeaderWithID()
	tick, _ := n.clock.now()
	s := txn.Status{
		Node: string(n.storage.id), Leader: n.leads(), LeaderID: string(leaderID), Version: Version(),
		Term: n.raft.CurrentTerm(), LogIndex: n.raft.LastIndex(), Tick: uint64(tick),
		Uptime:   txn.Duration(time.Since(n.started).Round(time.Millisecond)),
		Commands: n.batcher.commands.Load(), Entries: n.batcher.entries.Load(), TickEntries: n.batcher.tickEntries.Load(),
	}
	if leader == "" {
		s.LeaderID = ""
	}
	n.fsm.View(func(m *machine.Machine) {
		boot, _ := m.Bootstrap()
		c := m.Counts()
		s.Incarnation, s.Held = m.Incarnation(), m.Held()
		s.Cluster, s.Interval = boot.Cluster, txn.Duration(boot.Interval)
		s.Open, s.Delegated, s.Undone, s.Finished, s.Hazards = c.Open, c.Delegated, c.Undone, c.Finished, c.Hazards
		s.Committed, s.RolledBack, s.TimedOut = c.Committed, c.RolledBack.Sum(), c.RolledBack[txn.CauseTimeout]
		s.RolledBackBy = make(map[txn.Cause]uint64)
		for _, cause := range txn.Causes() {
			s.RolledBackBy[cause] = c.RolledBack[cause]
		}
		s.Sessions, s.SessionsExpired = c.Sessions, c.SessionsExpired
	})
	s.Members = n.Members()
	if w := n.waiting.Load(); w != nil {
		s.Waiting = *w
	}
	stats, err := n.storage.log.Stats()
	if err != nil {
		return s, txn.Wrap("status", txn.ID{}, err)
	}
	s.Syncs, s.LogBytes = 2*stats.Commits, stats.FileBytes
	if s.Leader {
		if s.Participants, err = n.Participants(txn.AllowStale(ctx)); err != nil {
			return s, err
		}
	}
	return s, nil
}
