package main

import (
	"context"
	"fmt"
	"time"
)

// catchUp is the result for a follower that was killed, and restarted after the others had written
// many entries.
type catchUp struct {
	Entries  uint64        `json:"entries"` // written to the log meanwhile
	Downtime time.Duration `json:"away_ns"`
	CaughtUp time.Duration `json:"caught_up_ns"` // from its start until it had applied what the leader had, under the same load
}

// catchUpCallers are few: they make many entries, rather than full ones.
const catchUpCallers = 2

func (t *cluster) catchUp(ctx context.Context, entries int) (*catchUp, error) {
	leader, before, err := t.nodes.Leader(ctx)
	if err != nil {
		return nil, err
	}
	follower := (leader + 1) % t.nodes.Nodes()
	if err := t.nodes.Kill(follower); err != nil {
		return nil, err
	}
	progressf("a follower is away for %d entries", entries)
	gone := time.Now()
	l := drive(ctx, t.client, catchUpCallers)
	defer l.end()
	a := new(catchUp)
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
			progressf("%d entries", a.Entries)
		}
	}
	a.Downtime = time.Since(gone)
	began := time.Now()
	if err := t.nodes.Restart(follower); err != nil {
		return nil, err
	}
	if err := t.caughtUp(ctx, follower, 0); err != nil {
		return nil, err
	}
	a.CaughtUp = time.Since(began)
	progressf("%d entries in %v; caught up after %v", a.Entries, a.Downtime.Round(time.Second), a.CaughtUp)
	return a, nil
}
