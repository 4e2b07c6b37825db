package mariadb

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/txmgr/txmgr/participant"
	"github.com/txmgr/txmgr/participant/mariadb/internal/innodb"
	"github.com/txmgr/txmgr/txn"
)

// prepareAndRecover prepares a branch, has its connection closed, and has it
// committed by recovery at once.
func (b *bank) prepareAndRecover(t *testing.T, r *resourceManager, br *participant.Branch) error {
	w, err := b.begin(t, b.db, br.XID)
	if err != nil {
		return err
	}
	_, err = w.exec(t.Context(), "INSERT INTO account VALUES (?, 1)", br.XID)
	if err == nil {
		br.Vote, err = w.Prepare(t.Context())
	}
	br.SessionRef = w.sessionRef.String()
	w.Release()
	if err != nil {
		return err
	}
	res, err := r.Commit(t.Context(), *br)
	if err == nil && res.Outcome != participant.Committed {
		err = fmt.Errorf("%s ended as %v (%s)", br.XID, res.Outcome, res.Detail)
	}
	return err
}

// failed is a branch that recovery did not commit.
type failed struct {
	branch participant.Branch
	err    error
}

func (f failed) String() string { return f.branch.XID + ": " + f.err.Error() }

// race prepares and recovers n branches with the given number of workers, and stops at the first
// failure.
func (b *bank) race(t *testing.T, r *resourceManager, workers int, n int64) (all []failed, done int64) {
	var begun, ended atomic.Int64
	failures := make(chan failed, workers)
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	var wg sync.WaitGroup
	for range workers {
		wg.Go(func() {
			for begun.Add(1) <= n && ctx.Err() == nil {
				br := newName()
				if err := b.prepareAndRecover(t, r, &br); err != nil {
					failures <- failed{br, err}
					stop()
					return
				}
				ended.Add(1)
			}
		})
	}
	wg.Wait()
	close(failures)
	for f := range failures {
		all = append(all, f)
	}
	return all, ended.Load()
}

// TestCommitWithinAMillisecondOfThePreparersClose: MariaDB answers XA COMMIT with success, and
// loses the branch, if it comes while the connection that prepared it is closing.
// TestOrphanedLocksAreReportedEverywhere has the same race with the unsafe order.
func TestCommitWithinAMillisecondOfThePreparersClose(t *testing.T) {
	const n = 10_000
	bank := newBank(t)
	r := bank.opened(t, nil)
	if failures, done := bank.race(t, r, 100, n); done != n || len(failures) > 0 {
		t.Errorf("%d of %d were committed: %v", done, n, failures)
	}
	var rows int
	check(t, bank.pool.QueryRowContext(t.Context(), "SELECT COUNT(*) FROM account").Scan(&rows))
	if rows != n {
		t.Errorf("%d of %d are there", rows, n)
	}
	bank.wantNothingLeft(t, r)
}

// wantNothingLeft fails if a branch of the cluster is prepared, or has orphaned locks.
func (b *bank) wantNothingLeft(t *testing.T, r *resourceManager) {
	t.Helper()
	if left, err := r.Prepared(t.Context(), txn.ClusterPrefix("test")); err != nil || len(left) != 0 {
		t.Errorf("left prepared: %v, %v", left, err)
	}
	all, err := innodb.Transactions(t.Context(), r.db)
	check(t, err)
	for _, x := range all {
		if x.Conn == 0 {
			t.Errorf("a transaction belongs to no connection: %+v", x)
		}
	}
}
