package demo

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/txmgr/txmgr/txn"
)

const (
	// openTimeout is the timeout of a transaction that stays open while a leader crashes; a new
	// leader is elected in less.
	openTimeout = 6 * time.Second
	// takeoverTimeout allows for a busy machine; two seconds are usual.
	takeoverTimeout = 15 * time.Second
	// maxLateness is the permitted lag of a deadline on a busy machine. The lag may be longer only
	// if there was no leader for longer.
	maxLateness = time.Second
)

// leaderCrashes kills the leader between a decision and phase two, while another transaction is
// open. The decision has to be carried out, the deadline met, and the node has to rejoin.
func (t *demo) leaderCrashes(ctx context.Context) error {
	lead, before, err := t.nodes.awaitLeader(ctx)
	if err != nil {
		return err
	}
	t.reporter.printf("node %s leads (process %d, term %d)", lead.name, lead.pid(), before.Term)
	open, err := t.leaveOpen(ctx)
	if err != nil {
		return err
	}
	pid := lead.pid()
	m := &killAfterCommit{Manager: t.m, kill: lead.kill}
	const amount = 30
	if err := t.transferWithoutService(ctx, m, amount); m.decided == 0 || !errors.Is(err, txn.ErrInDoubt) {
		return fmt.Errorf("the transfer should have been interrupted right after its decision: %w", err)
	}
	killed := time.Now()
	t.summary.Kills++
	t.reporter.printf("a transfer of %d is decided to commit, by a majority; the leader (kill -9 %d) and the application are killed", amount, pid)
	if err := t.checkPrepared(ctx, m.id); err != nil {
		return err
	}
	next, after, err := t.nodes.awaitLeader(ctx)
	if err != nil {
		return err
	}
	alone := time.Since(killed)
	t.check(next != lead && after.Term > before.Term && alone < takeoverTimeout,
		fmt.Sprintf("leader killed during commit: node %s leads, with term %d, after %v", next.name, after.Term, alone.Round(time.Millisecond)),
		fmt.Sprintf("node %s, term %d, after %v", next.name, after.Term, alone))
	info, err := t.m.Wait(ctx, m.id, txn.UntilFinished)
	if err != nil {
		return err
	}
	if info.State == txn.Committed {
		t.expected.add(0, alice, -amount)
		t.expected.add(1, alice, amount)
	}
	t.check(info.State == txn.Committed && info.Heuristic == 0,
		fmt.Sprintf("commit completed in both databases, as decided, %v after the kill", time.Since(killed).Round(time.Millisecond)), info.State.String())
	if err := t.checkDeadline(ctx, open, max(alone, maxLateness)); err != nil {
		return err
	}
	return t.restartNode(ctx, lead, next)
}

// openTransaction is an undecided transaction of an application that has crashed.
type openTransaction struct {
	began time.Time
	info  txn.Info
}

// leaveOpen prepares a transfer for which no decision is requested.
func (t *demo) leaveOpen(ctx context.Context) (openTransaction, error) {
	m := &crashBeforeCommit{Manager: t.m}
	p := openTransaction{began: time.Now()}
	bob := accountName(1)
	if err := t.transfer(ctx, m, openTimeout, 0, bob, bob, 20); !errors.Is(err, txn.ErrInDoubt) {
		return p, fmt.Errorf("the transfer should have stayed undecided: %w", err)
	}
	var err error
	if p.info, err = t.m.Get(ctx, m.id); err != nil {
		return p, err
	}
	t.reporter.printf("a transfer of 20 by %s is prepared in both databases, with a timeout of %v, and left undecided", bob, openTimeout)
	t.reporter.printf("   survival index: at tick %d it survives %d more invocations of the timeout thread, until tick %d", p.tick(), p.info.RemainingInvocations, p.info.ExpiryTick)
	return p, nil
}

// tick is the tick at which the transaction was read.
func (p openTransaction) tick() uint64 { return p.info.ExpiryTick - p.info.RemainingInvocations }

// onTime reports whether the transaction ended at its deadline: not before it, and at most late
// after it.
func (p openTransaction) onTime(end txn.Info, took, late time.Duration) bool {
	return end.State == txn.RolledBack && end.Cause == txn.CauseTimeout && took >= openTimeout && took < openTimeout+late
}

// checkDeadline waits for the end of a transaction that was open during a change of leader.
func (t *demo) checkDeadline(ctx context.Context, p openTransaction, late time.Duration) error {
	now, err := t.m.Get(ctx, p.info.ID)
	if err != nil {
		return err
	}
	if !now.State.Decided() {
		t.check(now.ExpiryTick == p.info.ExpiryTick, fmt.Sprintf("the undecided transaction still expires at tick %d; without a leader no ticks were counted: it is tick %d", p.info.ExpiryTick, openTransaction{info: now}.tick()),
			fmt.Sprintf("tick %d", now.ExpiryTick))
	}
	info, err := t.countDown(ctx, p.info.ID)
	if err != nil {
		return err
	}
	took := time.Since(p.began)
	t.check(p.onTime(info, took, late),
		fmt.Sprintf("rolled back at its deadline, neither early nor extended by the election: after %v", took.Round(time.Millisecond)),
		fmt.Sprintf("%v, %v, after %v", info.State, info.Cause, took))
	return nil
}

// restartNode restarts a node, which has to catch up with the log.
func (t *demo) restartNode(ctx context.Context, c, lead *coordinator) error {
	missed, err := lead.client.Admin().Status(ctx)
	if err != nil {
		return err
	}
	began := time.Now()
	if err := c.start(context.WithoutCancel(ctx)); err != nil {
		return err
	}
	if err := t.nodes.awaitApplied(ctx, c, missed.LogIndex); err != nil {
		return err
	}
	s, err := c.client.Admin().Status(ctx)
	if err != nil {
		return err
	}
	t.check(!s.Leader && s.Cluster == t.cluster, fmt.Sprintf("killed node %s started again (process %d): caught up to entry %d in %v", c.name, c.pid(), missed.LogIndex, time.Since(began).Round(time.Millisecond)),
		fmt.Sprintf("leader: %v, cluster %s", s.Leader, s.Cluster))
	return t.reportBalances(ctx)
}
