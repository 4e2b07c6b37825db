package cluster

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/txmgr/txmgr/client"
	"github.com/txmgr/txmgr/internal/rig"
	"github.com/txmgr/txmgr/txn"
	"github.com/txmgr/txmgr/txn/admin"
)

// commitLoop makes commits, one after the other, as fast as one client can.
type commitLoop struct {
	c *client.Client

	mu   sync.Mutex // guards all below
	acks []ackedCommit
	errs []error
}

// ackedCommit is a commit that was acknowledged.
type ackedCommit struct {
	id           txn.ID
	began, ended time.Time
}

// run makes commits until ctx ends.
func (p *commitLoop) run(ctx context.Context) {
	for ctx.Err() == nil {
		a := ackedCommit{id: rig.NewID(), began: time.Now()}
		err := commitNothing(ctx, p.c, a.id)
		a.ended = time.Now()
		p.mu.Lock()
		if err == nil {
			p.acks = append(p.acks, a)
		} else if ctx.Err() == nil {
			p.errs = append(p.errs, err)
		}
		p.mu.Unlock()
		rig.Sleep(ctx, 5*time.Millisecond)
	}
}

func commitNothing(ctx context.Context, c *client.Client, id txn.ID) error {
	begun, err := c.Begin(ctx, txn.Options{ID: id, Name: "beat", Timeout: time.Minute})
	if err != nil {
		return err
	}
	_, err = c.Commit(ctx, begun.ID, txn.CommitRequest{})
	return err
}

// after waits for the first commit that was begun after an instant.
func (p *commitLoop) after(ctx context.Context, then time.Time) (ackedCommit, error) {
	var found ackedCommit
	err := rig.Retry(ctx, func() error {
		p.mu.Lock()
		defer p.mu.Unlock()
		for i := len(p.acks); i > 0 && p.acks[i-1].ended.After(then); i-- {
			found = p.acks[i-1]
		}
		if found.ended.IsZero() {
			return errors.New("nothing was committed")
		}
		return nil
	})
	return found, err
}

// checkAcked checks that every running node has what was acknowledged.
func (p *commitLoop) checkAcked(b *testCluster, least int) {
	b.t.Helper()
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.acks) < least {
		b.t.Errorf("only %d commits were acknowledged, too few to show anything: want %d", len(p.acks), least)
	}
	for _, n := range b.nodes {
		if !n.up() {
			continue
		}
		for _, a := range p.acks {
			info, err := n.m.Get(txn.AllowStale(b.t.Context()), a.id)
			if err != nil || info.State != txn.Committed {
				b.t.Errorf("%v was acknowledged as committed; %s says %v, %v", a.id, n.Name, info.State, err)
				break
			}
		}
	}
}

// TestLeaderKills measures, for one leader after the other, how long it takes from its kill -9
// until a commit is acknowledged again, with default settings. Leaders change more often than the
// timeouts of the abandoned transactions end: none ends early, and none starts anew.
func TestLeaderKills(t *testing.T) {
	const bound = 15 * time.Second // for a busy machine; the log has the figures
	b := newTestCluster(t)
	b.form()
	p := &commitLoop{c: b.dial(waitTimeout)}
	ctx, cancel := context.WithCancel(t.Context())
	dozing := &abandonedTxs{t: t, c: b.dial(waitTimeout)}
	var beating sync.WaitGroup
	beating.Go(func() { p.run(ctx) })
	beating.Go(func() { dozing.work(ctx, 2*abandonedCount) })
	var took []time.Duration
	for range killCount(t) {
		leader, _ := b.leader()
		start := time.Now()
		leader.Kill()
		a, err := p.after(ctx, time.Now())
		b.must(err)
		took = append(took, a.ended.Sub(start))
		b.events.Note("%s was killed; the next commit came after %v", leader.Name, a.ended.Sub(start).Round(time.Millisecond))
		b.must(leader.Start(b.t.Context()))
		b.awaitHealthy()
	}
	cancel()
	beating.Wait()
	n, p50, p99, most := quantiles(took)
	t.Logf("%d leaders killed; commits were acknowledged again after %v in the middle, %v at p99, %v at most", n, p50, p99, most)
	if most > bound {
		t.Errorf("it took %v at most, want %v at most", most, bound)
	}
	for _, err := range p.errs {
		t.Errorf("a client with patience was told: %v", err)
	}
	n, most = dozing.lateness()
	if n < 2*abandonedCount || dozing.unknown > 0 || most > bound {
		t.Errorf("%d deadlines were seen, %d were not, and one was late by %v", n, dozing.unknown, most)
	}
	b.eventually(waitTimeout, "all have the same", func(ctx context.Context) error { return b.checkApplied(ctx) })
	p.checkAcked(b, killCount(t)*5)
}

// checkApplied reports whether all nodes have applied the same decisions.
func (b *testCluster) checkApplied(ctx context.Context) error {
	all := b.statuses(ctx)
	leader, err := leading(all)
	for n, s := range all {
		if err == nil && s.Committed != leader.Committed {
			err = fmt.Errorf("%s has %d commits, the leader %d", n.Name, s.Committed, leader.Committed)
		}
	}
	return err
}

// checkLatest reads the latest acknowledged commit from a node. If it answers, it has to know it.
func (p *commitLoop) checkLatest(n *node) {
	p.mu.Lock()
	last := p.acks[len(p.acks)-1]
	p.mu.Unlock()
	ctx, cancel := context.WithTimeout(n.t.Context(), 3*time.Second)
	defer cancel()
	info, err := n.m.Get(ctx, last.id)
	if errors.Is(err, txn.ErrNotFound) || err == nil && info.State != txn.Committed {
		n.t.Errorf("%v was acknowledged as committed; %s said %v, %v", last.id, n.Name, info.State, err)
	}
}

// TestHaltedLeader: a leader is suspended for longer than an election and resumes. Others have led
// meanwhile; it may acknowledge nothing itself, deny nothing that was acknowledged, and no deadline
// may be early, neither at the new leader nor in a burst at the old one.
func TestHaltedLeader(t *testing.T) {
	t.Parallel()
	b := newTestCluster(t)
	b.form()
	l := b.load(waitTimeout)
	p := l.p
	dozing := &abandonedTxs{t: t, c: b.dial(waitTimeout)}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var busy sync.WaitGroup
	busy.Go(func() { dozing.work(ctx, abandonedCount) })
	for _, d := range []time.Duration{2 * time.Second, 7 * time.Second} {
		leader, _ := b.leader()
		old := b.id(leader)
		before := time.Now()
		var asking sync.WaitGroup
		b.must(leader.Suspend(ctx, d, func() {
			// Calls that were made meanwhile wait in its sockets.
			for range 50 {
				asking.Go(func() { p.checkLatest(leader) })
			}
		}))
		asking.Wait()
		for range 20 {
			p.checkLatest(leader)
		}
		a, err := p.after(ctx, before)
		b.must(err)
		s, err := b.m.Admin().Status(ctx)
		b.must(err)
		t.Logf("halted for %v: the first commit after it began ended after %v; it led: %v, it leads: %v", d, a.ended.Sub(before).Round(time.Millisecond), old, s.LeaderID)
		if d > 5*time.Second && s.LeaderID == old {
			t.Errorf("nobody took over from %s in %v", old, d)
		}
		b.awaitHealthy()
	}
	cancel()
	busy.Wait()
	n, _ := dozing.lateness()
	if n < abandonedCount {
		t.Errorf("only %d deadlines were seen", n)
	}
	l.check()
}

// TestRollingRestart: each node is stopped in an orderly way and restarted, and no call of any
// client with the default timeout fails.
func TestRollingRestart(t *testing.T) {
	t.Parallel()
	b := newTestCluster(t)
	b.form()
	l := b.load(0)
	leader, followers := b.leader()
	for _, n := range append(followers, leader) {
		start := time.Now()
		b.must(n.Stop(waitTimeout))
		b.must(n.Start(b.t.Context()))
		b.awaitHealthy()
		b.events.Note("%s was restarted within %v", n.Name, time.Since(start).Round(time.Millisecond))
		l.awaitCommits()
	}
	l.check()
	longest := time.Duration(0)
	for _, a := range l.p.acks {
		longest = max(longest, a.ended.Sub(a.began))
	}
	t.Logf("none failed; the longest took %v", longest.Round(time.Millisecond))
}

// TestFollowerComesBack: a follower is down while more is written than the others keep in their
// logs, and has caught up within 30 seconds of its start.
func TestFollowerComesBack(t *testing.T) {
	t.Parallel()
	const away, within = 25_000, 30 * time.Second
	b := newTestCluster(t, "--snapshot-bytes", "1000000", "--retention", "1s", "--log-level", "debug")
	for _, n := range b.nodes {
		b.mountSmallDisk(n, "1g") // in memory: the disk is not tested
	}
	b.form()
	_, followers := b.leader()
	gone := followers[0]
	from, err := gone.status(t.Context())
	b.must(err)
	gone.Kill()
	c := b.dial(waitTimeout)
	var writing sync.WaitGroup
	var enough atomic.Bool
	var failure atomic.Pointer[error]
	for range 32 {
		writing.Go(func() {
			for !enough.Load() {
				// Outcomes are kept for a second: the client makes the id, with its mark.
				if err := commitNothing(t.Context(), c, txn.ID{}); err != nil {
					failure.Store(&err)
					return
				}
			}
		})
	}
	var to admin.Status
	b.eventually(3*waitTimeout, "enough was written", func(ctx context.Context) (err error) {
		if to, err = c.Admin().Status(ctx); err == nil && to.LogIndex < from.LogIndex+away && failure.Load() == nil {
			err = fmt.Errorf("entry %d of %d", to.LogIndex, from.LogIndex+away)
		}
		return err
	})
	enough.Store(true)
	writing.Wait()
	if p := failure.Load(); p != nil {
		t.Fatal(*p)
	}
	start := time.Now()
	b.must(gone.Start(b.t.Context()))
	b.eventually(within, "it has caught up", func(ctx context.Context) error {
		s, err := gone.status(ctx)
		if err == nil && s.LogIndex < to.LogIndex {
			err = fmt.Errorf("it is at entry %d of %d", s.LogIndex, to.LogIndex)
		}
		return err
	})
	t.Logf("away for %d entries, %d commits; caught up %v after its start", to.LogIndex-from.LogIndex, to.Committed-from.Committed, time.Since(start).Round(time.Millisecond))
	if !strings.Contains(gone.outputTail(1<<20), "Installed remote snapshot") {
		t.Error("it caught up without a snapshot: the others have kept more of the log than this test thinks")
	}
	b.awaitHealthy()
	b.eventually(waitTimeout, "all have the same", func(ctx context.Context) error { return b.checkApplied(ctx) })
}
