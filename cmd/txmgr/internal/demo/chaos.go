package demo

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/txmgr/txmgr/txn"
	"github.com/txmgr/txmgr/txn/admin"
)

const (
	chaosTransfers = 100
	chaosKills     = 4
	chaosTxTimeout = 5 * time.Second
	chaosLimit     = 2 * time.Minute // for a machine that is very busy
	// chaosTries bounds the retries of one transfer that was rolled back because of a conflict with
	// another one.
	chaosTries = 50
	// idleTimeout bounds the wait for the work that is left to recovery.
	idleTimeout = 20 * time.Second
)

// chaosTransfer is one transfer of the chaos scenario and its result.
type chaosTransfer struct {
	from         int
	payer, payee string
	amount       int64
	committed    bool
	rolledBack   int // tries that were rolled back
	err          error
}

func (t *demo) chaos(ctx context.Context) error {
	began := time.Now()
	ctx, cancel := context.WithTimeout(ctx, chaosLimit)
	defer cancel()
	done := make(chan chaosTransfer, chaosTransfers)
	for range chaosTransfers {
		mv := chaosTransfer{
			from: rand.IntN(2), payer: accountName(rand.IntN(accounts)), payee: accountName(rand.IntN(accounts)), amount: 1 + rand.Int64N(9),
		}
		go func() {
			t.runTransfer(ctx, &mv)
			done <- mv
		}()
	}
	t.reporter.printf("%d transfers begin at once, between %d random accounts", chaosTransfers, 2*accounts)
	committed, rolledBack, err := t.collect(ctx, cancel, done)
	if err != nil {
		return err
	}
	if err := t.awaitIdle(ctx); err != nil {
		return err
	}
	t.reporter.printf("%d committed; %d attempts were rolled back before because of conflicts, and repeated", committed, rolledBack)
	t.check(committed == chaosTransfers, fmt.Sprintf("every transfer committed, with %d kills, in %v", chaosKills, time.Since(began).Round(time.Millisecond)),
		fmt.Sprintf("%d of %d", committed, chaosTransfers))
	return nil
}

// collect waits for the transfers, and kills and restarts the coordinator at random points of their
// progress. It records only transfers that were reported committed. cancel ends the transfers if no
// coordinator is left.
func (t *demo) collect(ctx context.Context, cancel context.CancelFunc, done <-chan chaosTransfer) (committed, rolledBack int, err error) {
	step, hide := t.reporter.progress("transfers", chaosTransfers)
	defer hide()
	var killAt []int
	for i := range chaosKills {
		part := (chaosTransfers - 20) / chaosKills
		killAt = append(killAt, i*part+rand.IntN(part))
	}
	var failed []error
	for n := range chaosTransfers {
		if slices.Contains(killAt, n) && len(failed) == 0 {
			hide()
			if err := t.killAndRestart(ctx, n); err != nil {
				failed = append(failed, err)
				cancel()
			}
		}
		mv := <-done // every transfer ends with ctx at the latest
		step()
		rolledBack += mv.rolledBack
		if mv.committed {
			committed++
			t.recordTransfer(mv.from, mv.payer, mv.payee, mv.amount)
		}
		if mv.err != nil {
			failed = append(failed, mv.err)
		}
	}
	return committed, rolledBack, errors.Join(failed...)
}

// killAndRestart kills the leader and restarts it at once. A single node is unavailable meanwhile;
// in a cluster another node is elected.
func (t *demo) killAndRestart(ctx context.Context, n int) error {
	lead, _, err := t.nodes.awaitLeader(ctx)
	if err != nil {
		return err
	}
	pid := lead.pid()
	if err := lead.kill(); err != nil {
		return err
	}
	t.summary.Kills++
	began := time.Now()
	if err := lead.start(context.WithoutCancel(ctx)); err != nil {
		return err
	}
	next, _, err := t.nodes.awaitLeader(ctx)
	if err != nil {
		return err
	}
	took := time.Since(began).Round(time.Millisecond)
	if t.nodes.clustered() {
		t.reporter.printf("   after %2d transfers: leader killed (kill -9 %d, node %s): node %s leads after %v", n, pid, lead.name, next.name, took)
		return nil
	}
	t.reporter.printf("   after %2d transfers: coordinator killed (kill -9 %d): ready again after %v", n, pid, took)
	return nil
}

// runTransfer carries out one transfer as an application would: it retries what was rolled back,
// and reads the outcome of what is in doubt.
func (t *demo) runTransfer(ctx context.Context, mv *chaosTransfer) {
	for range chaosTries {
		err := t.transfer(ctx, t.m, chaosTxTimeout, mv.from, mv.payer, mv.payee, mv.amount)
		var e *txn.Error
		if errors.Is(err, txn.ErrInDoubt) && errors.As(err, &e) {
			info, askErr := t.m.Wait(ctx, e.ID, txn.UntilDecided)
			if askErr != nil {
				mv.err = askErr
				return
			}
			if err = nil; !info.State.Commits() {
				err = txn.ErrRolledBack
			}
		}
		switch {
		case err == nil:
			mv.committed = true
			return
		case !errors.Is(err, txn.ErrRolledBack) || ctx.Err() != nil:
			mv.err = err
			return
		}
		mv.rolledBack++
		pause(ctx, rand.N(20*time.Millisecond))
	}
	mv.err = fmt.Errorf("still rolled back after %d attempts", chaosTries)
}

func pause(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}

// awaitIdle waits until the coordinator has no unfinished work.
func (t *demo) awaitIdle(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, idleTimeout)
	defer cancel()
	for {
		open, err := t.m.List(ctx, admin.Filter{States: []txn.State{txn.Active, txn.Preparing, txn.Committing, txn.RollingBack}})
		if err != nil {
			return err
		}
		if len(open) == 0 {
			return nil
		}
		if _, err := t.m.Wait(ctx, open[0].ID, txn.UntilFinished); err != nil {
			return fmt.Errorf("%d transactions are not finished: %w", len(open), err)
		}
	}
}
