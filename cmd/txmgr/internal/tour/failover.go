package tour

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/txmgr/txmgr/txn"
)

const (
	// openTimeout is the time of a transaction that lives through the death of a
	// leader; the others take over in less.
	openTimeout = 6 * time.Second
	// takeover is what is allowed on a busy machine; two seconds are usual.
	takeover = 15 * time.Second
	// punctual is how late a deadline may be on a busy machine. Only when there was no
	// leader for longer it may be as late as that.
	punctual = time.Second
)

// leaderDies kills the leader between a decision and phase two, while another
// transaction is open. The decision has to be carried out, the deadline kept, and
// the node has to find its way back.
func (t *tour) leaderDies(ctx context.Context) error {
	lead, before, err := t.fleet.awaitLeader(ctx)
	if err != nil {
		return err
	}
	t.story.say("node %s leads, process %d, term %d", lead.name, lead.pid(), before.Term)
	open, err := t.leaveOpen(ctx)
	if err != nil {
		return err
	}
	pid := lead.pid()
	m := &killsAfterCommit{Manager: t.m, kill: lead.kill}
	const amount = 30
	if err := t.rebook(ctx, m, amount); m.decided == 0 || !errors.Is(err, txn.ErrInDoubt) {
		return fmt.Errorf("the rebooking was to end right after its decision: %w", err)
	}
	killed := time.Now()
	t.summary.Kills++
	t.story.say("%d more are decided to commit, by a majority; kill -9 %d, the leader; the application dies too", amount, pid)
	if err := t.holdsPrepared(ctx, m.id); err != nil {
		return err
	}
	next, after, err := t.fleet.awaitLeader(ctx)
	if err != nil {
		return err
	}
	alone := time.Since(killed)
	t.check(next != lead && after.Term > before.Term && alone < takeover,
		fmt.Sprintf("node %s leads, term %d, %v after the kill", next.name, after.Term, alone.Round(time.Millisecond)),
		fmt.Sprintf("node %s, term %d, after %v", next.name, after.Term, alone))
	info, err := t.m.Wait(ctx, m.id, txn.Finished)
	if err != nil {
		return err
	}
	if info.State == txn.Committed {
		t.book.add(0, alice, -amount)
		t.book.add(1, alice, amount)
	}
	t.check(info.State == txn.Committed && info.Hazard == 0,
		fmt.Sprintf("it committed it in both databases, as decided, %v after the kill", time.Since(killed).Round(time.Millisecond)), info.State.String())
	if err := t.keepsDeadline(ctx, open, max(alone, punctual)); err != nil {
		return err
	}
	return t.comesBack(ctx, lead, next)
}

// pending is a transaction that is open, of an application that is gone.
type pending struct {
	began time.Time
	info  txn.Info
}

// leaveOpen prepares a transfer that nobody will decide.
func (t *tour) leaveOpen(ctx context.Context) (pending, error) {
	m := &diesBeforeCommit{Manager: t.m}
	p := pending{began: time.Now()}
	bob := accountName(1)
	if err := t.transfer(ctx, m, openTimeout, 0, bob, bob, 20); !errors.Is(err, txn.ErrInDoubt) {
		return p, fmt.Errorf("the transfer was to stay open: %w", err)
	}
	var err error
	if p.info, err = t.m.Get(ctx, m.id); err != nil {
		return p, err
	}
	t.story.say("20 of %s are prepared in both databases, with a timeout of %v, and left open", bob, openTimeout)
	t.story.say("   survival index: at tick %d it survives %d more invocations of the timeout thread, until tick %d", p.tick(), p.info.RemainingInvocations, p.info.ExpiryTick)
	return p, nil
}

// tick is the one at which it was looked at.
func (p pending) tick() uint64 { return p.info.ExpiryTick - p.info.RemainingInvocations }

// kept reports whether the transaction ended at its time: not before, and not later
// than that by more than late.
func (p pending) kept(end txn.Info, took, late time.Duration) bool {
	return end.State == txn.RolledBack && end.Cause == txn.CauseTimeout && took >= openTimeout && took < openTimeout+late
}

// keepsDeadline waits for the end of a transaction that has seen two leaders.
func (t *tour) keepsDeadline(ctx context.Context, p pending, late time.Duration) error {
	now, err := t.m.Get(ctx, p.info.ID)
	if err != nil {
		return err
	}
	if !now.State.Decided() {
		t.check(now.ExpiryTick == p.info.ExpiryTick, fmt.Sprintf("the open one still ends at tick %d; nobody was there to count, and it is tick %d", p.info.ExpiryTick, pending{info: now}.tick()),
			fmt.Sprintf("tick %d", now.ExpiryTick))
	}
	info, err := t.countDown(ctx, p.info.ID)
	if err != nil {
		return err
	}
	took := time.Since(p.began)
	t.check(p.kept(info, took, late),
		fmt.Sprintf("rolled back at its time, neither early nor extended by the election: after %v", took.Round(time.Millisecond)),
		fmt.Sprintf("%v, %v, after %v", info.State, info.Cause, took))
	return nil
}

// comesBack starts a node again, which has to learn what it has missed.
func (t *tour) comesBack(ctx context.Context, c, lead *coordinator) error {
	missed, err := lead.ask.Status(ctx)
	if err != nil {
		return err
	}
	began := time.Now()
	if err := c.start(context.WithoutCancel(ctx)); err != nil {
		return err
	}
	if err := t.fleet.awaitEntry(ctx, c, missed.LogIndex); err != nil {
		return err
	}
	s, err := c.ask.Status(ctx)
	if err != nil {
		return err
	}
	t.check(!s.Leader && s.Cluster == t.cluster, fmt.Sprintf("node %s is back, process %d, and has caught up to entry %d, in %v", c.name, c.pid(), missed.LogIndex, time.Since(began).Round(time.Millisecond)),
		fmt.Sprintf("leader: %v, cluster %s", s.Leader, s.Cluster))
	return t.show(ctx)
}
