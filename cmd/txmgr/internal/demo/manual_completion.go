package demo

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/txmgr/txmgr/txn"
	"github.com/txmgr/txmgr/txn/admin"
)

// manualCompletion shows what no coordinator can prevent: an operator ends a branch at the
// database, otherwise than decided. The heuristic outcome has to be detected, proved, and kept
// until it is repaired and forgotten.
func (t *demo) manualCompletion(ctx context.Context) error {
	m := &killAfterCommit{Manager: t.m, kill: t.killAll}
	const amount = 30
	if err := t.transferWithoutService(ctx, m, amount); m.decided == 0 || !errors.Is(err, txn.ErrInDoubt) {
		return fmt.Errorf("the transfer should have been interrupted right after its decision: %w", err)
	}
	dead := "the coordinator is killed"
	if t.nodes.clustered() {
		dead = "all nodes are killed at once"
	}
	t.reporter.printf("a transfer of %d from %s to %s is decided to commit, and %s", amount, t.dbs[0].name(), t.dbs[1].name(), dead)
	held, err := t.dbs[0].prepared(ctx, txn.ClusterPrefix(t.cluster))
	if err != nil {
		return err
	}
	first := slices.IndexFunc(held, func(xid string) bool {
		_, id, branch, ok := txn.ParseXID(xid)
		return ok && id == m.id && branch == 1
	})
	if first < 0 {
		return fmt.Errorf("%s does not hold the branch prepared: %v", t.dbs[0].name(), held)
	}
	typed, err := t.dbs[0].rollbackManually(ctx, held[first])
	if err != nil {
		return fmt.Errorf("end a branch manually: %w", err)
	}
	t.reporter.printf("an operator sees the locks at %s and runs %s", t.dbs[0].name(), typed)
	if err := t.nodes.start(context.WithoutCancel(ctx)); err != nil {
		return err
	}
	info, err := t.m.Wait(ctx, m.id, txn.UntilFinished)
	if err != nil {
		return err
	}
	t.expected.add(1, alice, amount) // the other branch ended as decided
	if err := t.checkHeuristic(ctx, info); err != nil {
		return err
	}
	return t.repair(ctx, info.ID, amount)
}

// killAll stops every coordinator, so that there is time to end a branch manually.
func (t *demo) killAll() error {
	killed, err := t.nodes.kill()
	t.summary.Kills += killed
	return err
}

// checkHeuristic checks that the heuristic outcome is reported, with the branch that caused it.
func (t *demo) checkHeuristic(ctx context.Context, info txn.Info) error {
	inDoubt, err := t.m.Admin().InDoubts(ctx)
	if err != nil {
		return err
	}
	why := "none"
	if len(inDoubt) == 1 && inDoubt[0].ID == info.ID {
		why = inDoubt[0].Why
	}
	t.reporter.printf("txmgr indoubt list: %s", why)
	t.check(info.State == txn.Committed && info.Heuristic != 0 && len(inDoubt) == 1 && why != "none",
		"the heuristic outcome is reported, and the transaction stays in doubt", fmt.Sprintf("%v, heuristic %v, %d in doubt", info.State, info.Heuristic, len(inDoubt)))
	e, err := t.m.Admin().Explain(ctx, info.ID)
	if err != nil {
		return err
	}
	proved := len(e.Branches) > 0 && e.Branches[0].Outcome == txn.BranchRolledBack.String()
	found := ""
	if len(e.Branches) > 0 {
		found = e.Branches[0].Outcome + " " + e.Branches[0].Error
	}
	t.check(proved, fmt.Sprintf("%s proves that the branch was rolled back", t.dbs[0].name()), found)
	return nil
}

// repair does what an operator does then: it debits the missing amount and forgets the heuristic
// outcome.
func (t *demo) repair(ctx context.Context, id txn.ID, amount int64) error {
	if err := t.dbs[0].deposit(ctx, alice, -amount); err != nil {
		return fmt.Errorf("repair the damage: %w", err)
	}
	t.expected.add(0, alice, -amount)
	if _, err := t.m.Admin().Forget(ctx, id, "the demo", "corrected the balance"); err != nil {
		return err
	}
	inDoubt, err := t.m.Admin().InDoubts(ctx)
	if err != nil {
		return err
	}
	records, err := t.m.Admin().Audit(ctx, admin.AuditFilter{ID: id})
	if err != nil {
		return err
	}
	t.reporter.printf("an operator withdraws the %d from %s at %s, and runs txmgr indoubt forget", amount, alice, t.dbs[0].name())
	t.check(len(inDoubt) == 0 && len(records) == 1, "no transaction is in doubt any more, and the audit records the operator",
		fmt.Sprintf("%d in doubt, %d audit records", len(inDoubt), len(records)))
	return t.reportBalances(ctx)
}
