package mariadb

import (
	"context"
	"testing"
	"time"

	"github.com/txmgr/txmgr/participant"
	"github.com/txmgr/txmgr/participant/mariadb/internal/innodb"
)

// TestReadLockOfAFrozenCoordinatorBlocksNoOther: a holder of the lock that makes no progress (a node that
// lost its network, any user of the server) must not stop recovery.
func TestReadLockOfAFrozenCoordinatorBlocksNoOther(t *testing.T) {
	bank := newBank(t)
	r := bank.opened(t, nil)
	frozen, err := bank.pool.Conn(t.Context())
	check(t, err)
	var got int
	check(t, frozen.QueryRowContext(t.Context(), "SELECT GET_LOCK("+innodb.ReadLock+", 1)").Scan(&got))
	if got != 1 {
		t.Fatal("no lock")
	}
	br := bank.prepared(t, "INSERT INTO account VALUES ('alice', 1)")
	begun := time.Now()
	res, err := r.Commit(t.Context(), br)
	t.Logf("commit: %v %v after %v", res, err, time.Since(begun))
	wantEnd(t, res, err, participant.Committed)
	_ = frozen.Close()
}

// TestBranchAtWorkIsNotReportedAsRolledBack: a branch at work is not rolled back.
func TestBranchAtWorkIsNotReportedAsRolledBack(t *testing.T) {
	bank := newBank(t)
	r := bank.opened(t, nil)
	br := newName()
	w := bank.work(t, br.XID, "INSERT INTO account VALUES ('alice', 1)")
	br.SessionRef = w.sessionRef.String()
	ctx, cancel := context.WithCancel(t.Context())
	over := make(chan struct{})
	go func() {
		defer close(over)
		tick := time.NewTicker(30 * time.Millisecond)
		defer tick.Stop()
		for ctx.Err() == nil {
			_, _ = bank.pool.ExecContext(ctx, "SELECT COUNT(*) FROM information_schema.INNODB_TRX")
			<-tick.C
		}
	}()
	for range 3 {
		got, err := r.Inspect(t.Context(), br)
		check(t, err)
		t.Logf("%+v", got)
		if got.Outcome != 0 {
			t.Errorf("a branch at work: %+v", got)
		}
	}
	cancel()
	<-over
	check(t, w.Rollback(t.Context()))
	w.Release()
}

// TestBranchAtWorkBesideRecovery has no monitor: only txmgr's own snapshots read INNODB_TRX.
func TestBranchAtWorkBesideRecovery(t *testing.T) {
	bank := newBank(t)
	r := bank.opened(t, nil)
	br := newName()
	w := bank.work(t, br.XID, "INSERT INTO account VALUES ('alice', 1)")
	br.SessionRef = w.sessionRef.String()
	ctx, cancel := context.WithCancel(t.Context())
	over := make(chan struct{})
	go func() {
		defer close(over)
		for ctx.Err() == nil {
			_, _ = r.snapshot(ctx)
		}
	}()
	wrong := 0
	for range 10 {
		got, err := r.Inspect(t.Context(), br)
		check(t, err)
		if got.Outcome != 0 {
			wrong++
		}
	}
	cancel()
	<-over
	if wrong > 0 {
		t.Errorf("%d of 10 say that a branch at work has ended", wrong)
	}
	check(t, w.Rollback(t.Context()))
	w.Release()
}
