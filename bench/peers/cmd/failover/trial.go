package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/txmgr/txmgr/bench/peers/internal/threenodes"
	"github.com/txmgr/txmgr/client"
	"github.com/txmgr/txmgr/txn"
)

// fewOpen is the number of open transactions in the first series.
const fewOpen = 10

// cluster is the cluster and its client.
type cluster struct {
	nodes   *threenodes.Txmgr
	client  *client.Client
	callers int
}

// series is one number of open transactions, and the kills meanwhile.
type series struct {
	Open     int            `json:"open"`
	Filling  time.Duration  `json:"filling_ns"`
	Kills    []kill         `json:"kills"`
	Pairs    int            `json:"pairs"`    // that the callers made meanwhile
	Failures map[string]int `json:"failures"` // of their calls, by code
	Aborted  int            `json:"aborted"`  // open transactions that could not be committed at the end because they had ended
	Lost     int            `json:"lost"`     // open transactions that no node knows any more
	Unproved int            `json:"unproved"` // open transactions whose commit failed otherwise
}

// kill is one kill and what was measured.
type kill struct {
	Served   time.Duration `json:"served_ns"`   // until the first pair was made that began after it
	All      time.Duration `json:"all_ns"`      // until every caller had made one
	Rejoined time.Duration `json:"rejoined_ns"` // from the restart of the killed node until it had caught up
	Acked    int           `json:"acked"`       // transactions that were checked: their commit had been acknowledged
	Lost     int           `json:"lost"`        // of these, not committed
	Probes   int           `json:"probes"`      // transactions with deadlines in this time
	Early    int           `json:"early"`       // of these: ended before their deadline
	Late     time.Duration `json:"late_ns"`     // the longest lag of a deadline
	Excess   time.Duration `json:"excess_ns"`   // the lag beyond one interval and the time without a leader
}

// series opens transactions, kills leaders, and commits what it opened.
func (t *cluster) series(ctx context.Context, open, kills int) (s *series, err error) {
	s = &series{Open: open}
	progressf("opening %d transactions", open)
	began := time.Now()
	ids, err := t.fill(ctx, open)
	if err != nil {
		return s, err
	}
	s.Filling = time.Since(began)
	l := drive(ctx, t.client, t.callers)
	defer l.end()
	for n := range kills {
		k, err := t.kill(ctx, l, open)
		if err != nil {
			return s, fmt.Errorf("kill %d with %d open: %w", n+1, open, err)
		}
		progressf("kill %d of %d, %d open: served after %.2f s, all callers after %.2f s; latest deadline %.2f s; rejoined in %.1f s", n+1, kills, open,
			k.Served.Seconds(), k.All.Seconds(), k.Late.Seconds(), k.Rejoined.Seconds())
		s.Kills = append(s.Kills, k)
	}
	l.end()
	s.Pairs, s.Failures = l.pairs, l.failures
	progressf("committing the %d transactions", open)
	return s, t.commitOpen(ctx, s, ids)
}

// each calls do for every number below n, by many callers.
func each(ctx context.Context, n int, do func(ctx context.Context, i int) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var next atomic.Int64
	var wg sync.WaitGroup
	for range min(512, n) {
		wg.Go(func() {
			for ctx.Err() == nil {
				i := int(next.Add(1)) - 1
				if i >= n {
					return
				}
				if err := do(ctx, i); err != nil {
					cancel(err)
				}
			}
		})
	}
	wg.Wait()
	return context.Cause(ctx)
}

// fill begins transactions with distant and different deadlines.
func (t *cluster) fill(ctx context.Context, n int) ([]txn.ID, error) {
	ids := make([]txn.ID, n)
	return ids, each(ctx, n, func(ctx context.Context, i int) error {
		b, err := t.client.Begin(ctx, txn.Options{Name: "open", Timeout: 12*time.Hour + time.Duration(i%1000)*time.Second})
		ids[i] = b.ID
		return err
	})
}

// commitOpen commits the open transactions, which proves that they were open all the time.
func (t *cluster) commitOpen(ctx context.Context, s *series, ids []txn.ID) error {
	var aborted, lost, unproved atomic.Int64
	err := each(ctx, len(ids), func(ctx context.Context, i int) error {
		_, err := t.client.Commit(ctx, ids[i], txn.CommitRequest{})
		switch {
		case err == nil:
		case errors.Is(err, txn.ErrRolledBack):
			aborted.Add(1)
		case errors.Is(err, txn.ErrNotFound):
			lost.Add(1)
		default:
			unproved.Add(1)
		}
		return nil
	})
	s.Aborted, s.Lost, s.Unproved = int(aborted.Load()), int(lost.Load()), int(unproved.Load())
	return err
}

// kill kills the leader once, and returns when all nodes are in the cluster again.
func (t *cluster) kill(ctx context.Context, l *load, open int) (k kill, err error) {
	// A random delay, so that the kills do not coincide with a timer.
	select {
	case <-time.After(500*time.Millisecond + rand.N(500*time.Millisecond)):
	case <-ctx.Done():
		return k, context.Cause(ctx)
	}
	probes, err := t.probe(ctx)
	if err != nil {
		return k, err
	}
	leader, before, err := t.nodes.Leader(ctx)
	if err != nil {
		return k, err
	}
	at := time.Now()
	acked := l.from(at)
	if err := t.nodes.Kill(leader); err != nil {
		return k, err
	}
	first, last, err := l.awaitService(ctx)
	if err != nil {
		return k, err
	}
	k.Served, k.All, k.Acked, k.Probes = first.Sub(at), last.Sub(at), len(acked), len(probes)
	if k.Lost, err = t.forgotten(ctx, acked); err != nil {
		return k, err
	}
	again := time.Now()
	if err := t.nodes.Restart(leader); err != nil {
		return k, err
	}
	if err := t.caughtUp(ctx, leader, open); err != nil {
		return k, err
	}
	k.Rejoined = time.Since(again)
	return k, t.checkProbes(ctx, &k, probes, time.Duration(before.Interval))
}

// forgotten counts those of the transactions that are not committed, although their commit was
// acknowledged.
func (t *cluster) forgotten(ctx context.Context, acked []txn.ID) (int, error) {
	var n atomic.Int64
	err := each(ctx, len(acked), func(ctx context.Context, i int) error {
		info, err := t.client.Get(ctx, acked[i])
		if errors.Is(err, txn.ErrNotFound) || err == nil && !info.State.Commits() {
			progressf("%s was answered as committed, and is %v (%v)", acked[i], info.State, err)
			n.Add(1)
			return nil
		}
		return err
	})
	return int(n.Load()), err
}

// rejoinLimit is how long a node may take to catch up before the run fails.
const rejoinLimit = 10 * time.Minute

// caughtUp waits until a node has decided everything that the leader had decided just before, and
// has as many open transactions.
func (t *cluster) caughtUp(ctx context.Context, i, open int) error {
	ticker := time.NewTicker(20 * time.Millisecond)
	defer ticker.Stop()
	var last error
	for began := time.Now(); time.Since(began) < rejoinLimit; {
		_, leads, err := t.nodes.Leader(ctx)
		if err != nil {
			return err
		}
		own, err := t.nodes.Status(ctx, i)
		switch {
		case err != nil:
			last = err
		case own.Committed >= leads.Committed && own.TimedOut >= leads.TimedOut && own.Undecided >= open:
			return t.nodes.Ready(ctx, i)
		default:
			last = fmt.Errorf("%d of %d committed, %d open", own.Committed, leads.Committed, own.Undecided)
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	return fmt.Errorf("the node that was started again has not caught up in %v: %w", rejoinLimit, last)
}
