package main

import (
	"context"
	"fmt"
	"time"
)

// absence is a follower that was killed, and started again when the others had gone on for long.
type absence struct {
	Entries  uint64        `json:"entries"` // of the log meanwhile
	Away     time.Duration `json:"away_ns"`
	CaughtUp time.Duration `json:"caught_up_ns"` // from its start until it had what the leader has, under the same load
}

// awayCallers make many entries, rather than full ones.
const awayCallers = 2

func (t *trial) away(ctx context.Context, entries int) (*absence, error) {
	leader, before, err := t.nodes.Leader(ctx)
	if err != nil {
		return nil, err
	}
	follower := (leader + 1) % t.nodes.Nodes()
	if err := t.nodes.Kill(follower); err != nil {
		return nil, err
	}
	say("a follower is away for %d entries", entries)
	gone := time.Now()
	l := drive(ctx, t.client, awayCallers)
	defer l.end()
	a := new(absence)
	ticker, spoke := time.NewTicker(100*time.Millisecond), gone
	defer ticker.Stop()
	for a.Entries < uint64(entries) {
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
		s, err := t.nodes.Status(ctx, leader)
		if err != nil {
			return nil, fmt.Errorf("while a follower is away: %w", err)
		}
		a.Entries = s.LogIndex - before.LogIndex
		if time.Since(spoke) > 20*time.Second {
			spoke = time.Now()
			say("%d entries", a.Entries)
		}
	}
	a.Away = time.Since(gone)
	began := time.Now()
	if err := t.nodes.Restart(follower); err != nil {
		return nil, err
	}
	if err := t.caughtUp(ctx, follower, 0); err != nil {
		return nil, err
	}
	a.CaughtUp = time.Since(began)
	say("%d entries in %v; caught up after %v", a.Entries, a.Away.Round(time.Second), a.CaughtUp)
	return a, nil
}
