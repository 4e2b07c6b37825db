package postgres

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/txmgr/txmgr/internal/waittest"
	"github.com/txmgr/txmgr/participant"
)

// TestInspectLocksReportsHoldersAndWaiters: two processes wait for a row, and one for the table; also
// for a branch that was prepared before a restart, which PostgreSQL then lists differently.
func TestInspectLocksReportsHoldersAndWaiters(t *testing.T) {
	bank := newBank(t)
	bank.exec(t, "INSERT INTO account VALUES ('alice', 100), ('bob', 100)")
	bank.exec(t, "CREATE TABLE item (n int PRIMARY KEY)")
	br := bank.prepared(t, "UPDATE account SET balance = 1 WHERE id = 'alice'")
	other := bank.prepared(t, "WITH x AS (INSERT INTO item VALUES (1)) SELECT pg_advisory_xact_lock(42)")
	p := bank.opened(t, nil)
	for _, when := range []string{"at once", "after a crash"} {
		t.Run(when, func(t *testing.T) {
			if when == "after a crash" {
				crash(t)
				bank.pool.Reset()
				waittest.NoError(t, func() error { return p.Check(t.Context()) })
			}
			ctx, cancel := context.WithCancel(t.Context())
			stop := bank.waiters(t, ctx,
				"UPDATE account SET balance = balance + 1 WHERE id = 'alice' AND 's3cret' = 's3cret'",
				"DELETE FROM account WHERE id = 'alice'",
				"LOCK TABLE item")
			defer stop()
			defer cancel()
			all, err := p.(participant.LockInspector).InspectLocks(t.Context())
			check(t, err)
			held := map[string]participant.PreparedDetails{}
			for _, h := range all {
				held[h.XID] = h
			}
			wantLines(t, held[br.XID].Locks, "table account: row exclusive")
			wantLines(t, held[br.XID].Waiters, "user postgres, application waiter0, since 2", "UPDATE account SET balance = balance + 1 WHERE id = '...' AND '...' = '...'", "DELETE FROM account")
			wantLines(t, held[other.XID].Locks, "advisory: exclusive", "table item: row exclusive")
			wantLines(t, held[other.XID].Waiters, "LOCK TABLE item")
			report, err := p.(participant.Inspector).Inspect(t.Context(), br)
			check(t, err)
			if !report.Prepared || !slices.Equal(report.Locks, held[br.XID].Locks) || !slices.Equal(report.Waiters, held[br.XID].Waiters) {
				t.Errorf("inspected otherwise: %+v", report)
			}
		})
	}
	for _, b := range []participant.Branch{br, other} {
		r, err := p.Rollback(t.Context(), b)
		wantEnd(t, r, err, participant.RolledBack)
	}
}

// waiters starts statements that wait, one after the other.
func (b *bank) waiters(t *testing.T, ctx context.Context, statements ...string) (stop func()) {
	t.Helper()
	var done []chan struct{}
	for n, sql := range statements {
		conn, err := pgx.Connect(t.Context(), b.dsn+fmt.Sprintf("&application_name=waiter%d", n))
		check(t, err)
		over := make(chan struct{})
		done = append(done, over)
		go func() {
			defer close(over)
			_, err := conn.Exec(ctx, "BEGIN; "+sql, pgx.QueryExecModeSimpleProtocol)
			if err == nil {
				t.Errorf("did not wait: %s", sql)
			}
			_ = conn.Close(context.WithoutCancel(ctx))
		}()
		waittest.NoError(t, func() error {
			var waiting int
			check(t, b.pool.QueryRow(t.Context(), "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = current_database()").Scan(&waiting))
			if waiting != n+1 {
				return errors.New("it does not wait yet")
			}
			return nil
		})
	}
	return func() {
		for _, over := range done {
			<-over
		}
	}
}

// wantLines wants each text in a line, and a line for each text that begins one.
func wantLines(t *testing.T, lines []string, texts ...string) {
	t.Helper()
	all := strings.Join(lines, "\n")
	for _, text := range texts {
		if !strings.Contains(all, text) {
			t.Errorf("%q is not in:\n%s", text, all)
		}
	}
	if strings.Contains(all, "s3cret") {
		t.Errorf("texts of statements are shown:\n%s", all)
	}
}

// TestInspectOfAnOpenConnection: the report says what the backend is doing.
func TestInspectOfAnOpenConnection(t *testing.T) {
	bank := newBank(t)
	p := bank.opened(t, nil)
	b, br := bank.alone(t, "INSERT INTO account VALUES ('alice', 1)")
	defer b.Release()
	_, err := b.tx.Exec(t.Context(), "SELECT 's3cret'")
	check(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	stop := bank.waiters(t, ctx, "INSERT INTO account VALUES ('alice', 2)")
	report, err := p.(participant.Inspector).Inspect(t.Context(), br)
	check(t, err)
	if report.Prepared || report.Outcome != 0 {
		t.Errorf("got %+v", report)
	}
	wantLines(t, []string{report.Detail}, fmt.Sprintf("process %d, user postgres", b.sessionRef.PID), "idle in transaction since 2", ": SELECT '...'")
	wantLines(t, report.Locks, "table account: row exclusive")
	wantLines(t, report.Waiters, "INSERT INTO account VALUES ('...', 2)")
	cancel()
	stop()
	check(t, b.Rollback(t.Context()))
	report, err = p.(participant.Inspector).Inspect(t.Context(), br)
	check(t, err)
	if report.Outcome != participant.RolledBack || !strings.Contains(report.Detail, "aborted") {
		t.Errorf("got %+v", report)
	}
}

// TestInspectOfABranchFinishedManually: the report has the exact outcome.
func TestInspectOfABranchFinishedManually(t *testing.T) {
	bank := newBank(t)
	p := bank.opened(t, nil)
	for statement, want := range map[string]participant.BranchOutcome{commitPrepared: participant.Committed, rollbackPrepared: participant.RolledBack} {
		br := bank.prepared(t, "INSERT INTO account VALUES ($1, 1)", statement)
		check(t, finishPrepared(t.Context(), bank.pool, statement, br.XID))
		crash(t) // the outcomes of prepared branches remain provable
		bank.pool.Reset()
		waittest.NoError(t, func() error { return p.Check(t.Context()) })
		report, err := p.(participant.Inspector).Inspect(t.Context(), br)
		if err != nil || report.Prepared || report.Outcome != want {
			t.Errorf("%s: %+v, %v", statement, report, err)
		}
	}
}

func TestListsOfLocksAreBounded(t *testing.T) {
	var lines []string
	for n := range maxLines {
		lines = append(lines, fmt.Sprint(n))
	}
	if got := limitLines(lines); len(got) != maxLines || got[maxLines-1] != "19" {
		t.Errorf("got %v", got)
	}
	got := limitLines(append(lines, "20"))
	if len(got) != maxLines || got[maxLines-1] != "and 2 more" || lines[maxLines-1] != "19" {
		t.Errorf("got %v", got)
	}
	for mode, want := range map[string]string{"RowExclusiveLock": "row exclusive", "AccessShareLock": "access share", "ExclusiveLock": "exclusive", "SIReadLock": "serializable read"} {
		if got := modeWords(mode); got != want {
			t.Errorf("%s: %q", mode, got)
		}
	}
}
