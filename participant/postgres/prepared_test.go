package postgres

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/txmgr/txmgr/participant"
	"github.com/txmgr/txmgr/txn"
)

// onePool is a bank with a single connection.
func onePool(t testing.TB, words string) *bank {
	t.Helper()
	b := newBank(t).withMarkers(t)
	return b.through(t, b.dsn+"&pool_max_conns=1"+words)
}

// preparedOnes are the texts of what this package has prepared on the connection.
func (b *bank) preparedOnes(t *testing.T) []string {
	t.Helper()
	rows, err := b.pool.Query(t.Context(), "SELECT statement FROM pg_prepared_statements WHERE name LIKE 'txmgr%' ORDER BY 1", pgx.QueryExecModeExec)
	check(t, err)
	texts, err := pgx.CollectRows(rows, pgx.RowTo[string])
	check(t, err)
	return texts
}

// oneBranch begins a branch, runs statements in it and commits it in one phase.
func (b *bank) oneBranch(t *testing.T, statements ...string) (participant.Branch, txn.BranchState, error) {
	t.Helper()
	w, br := b.alone(t, "SELECT 1")
	defer w.Release()
	for _, sql := range statements {
		_, err := w.tx.Exec(t.Context(), sql, pgx.QueryExecModeExec)
		check(t, err)
	}
	state, err := w.CommitOnePhase(t.Context())
	return br, state, err
}

// TestStatementsArePreparedOnce on a connection, and in the way that the pool has its own prepared.
func TestStatementsArePreparedOnce(t *testing.T) {
	bank := onePool(t, "")
	bank.db.TxOptions.IsoLevel = pgx.Serializable
	for range 3 {
		w, _ := bank.alone(t, "SELECT 1")
		var level string
		check(t, w.tx.QueryRow(t.Context(), "SHOW transaction_isolation").Scan(&level))
		if level != "serializable" {
			t.Errorf("isolation level %s", level)
		}
		if state, err := w.CommitOnePhase(t.Context()); state != txn.BranchCommitted {
			t.Errorf("%v, %v", state, err)
		}
		w.Release()
		if got := bank.preparedOnes(t); len(got) != 4 || !slices.Contains(got, "BEGIN ISOLATION LEVEL serializable") || !slices.Contains(got, commit) {
			t.Errorf("prepared: %q", got)
		}
	}

	unnamed := onePool(t, noNames)
	if _, state, err := unnamed.oneBranch(t); state != txn.BranchCommitted {
		t.Errorf("%v, %v", state, err)
	}
	if got := unnamed.preparedOnes(t); len(got) != 0 {
		t.Errorf("although the pool prepares none: %q", got)
	}
}

// TestPreparedStatementsAreRemoved by the application: between two branches, no branch fails; in a branch, it is rolled back.
func TestPreparedStatementsAreRemoved(t *testing.T) {
	for name, remove := range map[string]func(*bank, int){
		"all": func(b *bank, _ int) { b.exec(t, "DISCARD ALL", pgx.QueryExecModeExec) },
		"one": func(b *bank, n int) {
			for _, sql := range b.preparedOnes(t)[n : n+1] {
				var name string
				check(t, b.pool.QueryRow(t.Context(), "SELECT name FROM pg_prepared_statements WHERE statement = $1", pgx.QueryExecModeExec, sql).Scan(&name))
				b.exec(t, "DEALLOCATE "+name, pgx.QueryExecModeExec)
			}
		},
	} {
		for n := range 2 { // of begin, and of the marker row
			bank := onePool(t, "")
			for i := range 4 {
				if i == 1 {
					remove(bank, []int{0, 2}[n])
				}
				if _, state, err := bank.oneBranch(t, "INSERT INTO account VALUES ('"+newBranch().XID+"', 1)"); state != txn.BranchCommitted {
					t.Errorf("%s, branch %d: %v, %v", name, i, state, err)
				}
			}
			var accounts, connections int
			check(t, bank.pool.QueryRow(t.Context(), "SELECT count(*) FROM account", pgx.QueryExecModeExec).Scan(&accounts))
			if connections = int(bank.pool.Stat().NewConnsCount()); accounts != 4 || connections != 1 {
				t.Errorf("%s: %d accounts, want 4; %d connections, want the first", name, accounts, connections)
			}
		}
	}

	bank := onePool(t, "")
	p := bank.opened(t, nil)
	br, state, err := bank.oneBranch(t, "INSERT INTO account VALUES ('alice', 1)", "DEALLOCATE ALL")
	if state != txn.BranchRolledBack || err == nil || errors.Is(err, txn.ErrEndedByApplication) {
		t.Errorf("%v, %v", state, err)
	}
	wantResolved(t, p, br, participant.RolledBack, "")
	if _, state, err := bank.oneBranch(t); state != txn.BranchCommitted || bank.balance(t, "alice") != 0 {
		t.Errorf("afterwards: %v, %v; alice has %d", state, err, bank.balance(t, "alice"))
	}
}

// TestPreparedMarkerRow of a table that was replaced meanwhile: it is written to the new one.
func TestPreparedMarkerRow(t *testing.T) {
	bank := onePool(t, "")
	for range 7 { // the server plans a statement once only after some runs
		if _, state, err := bank.oneBranch(t); state != txn.BranchCommitted {
			t.Fatal(state, err)
		}
	}
	bank.exec(t, "ALTER TABLE txmgr_branch RENAME TO old")
	bank.withMarkers(t)
	br, state, err := bank.oneBranch(t)
	if state != txn.BranchCommitted {
		t.Fatal(state, err)
	}
	var rows int
	check(t, bank.pool.QueryRow(t.Context(), "SELECT count(*) FROM txmgr_branch WHERE xid = $1", br.XID).Scan(&rows))
	if rows != 1 {
		t.Error("its row is not in the new table")
	}
}

// BenchmarkAlone is a branch with one small statement that commits in one phase, with prepared statements and with
// texts; and the same manually, without a marker row. It reports the processor time of the backend.
func BenchmarkAlone(b *testing.B) {
	const update = "UPDATE account SET balance = balance + 1 WHERE id = 'alice'"
	branch := func(b *testing.B, bank *bank) {
		w := bank.work(b, newBranch().XID, update)
		defer w.Release()
		if state, err := w.CommitOnePhase(b.Context()); state != txn.BranchCommitted {
			b.Fatal(state, err)
		}
	}
	for name, once := range map[string]func(*testing.B, *bank){
		"prepared": branch,
		"text":     branch,
		"manual": func(b *testing.B, bank *bank) {
			conn, err := bank.pool.Acquire(b.Context())
			check(b, err)
			defer conn.Release()
			for _, sql := range []string{"BEGIN", update, commit} {
				_, err := conn.Exec(b.Context(), sql)
				check(b, err)
			}
		},
	} {
		b.Run(name, func(b *testing.B) {
			bank := onePool(b, "")
			bank.exec(b, "INSERT INTO account VALUES ('alice', 0)")
			conn, err := bank.pool.Acquire(b.Context())
			check(b, err)
			backend := fmt.Sprintf("/proc/%d/schedstat", conn.Conn().PgConn().PID())
			if name == "text" {
				forgetPrepared(conn.Conn())
			}
			conn.Release()
			used := func() (ns float64) {
				text, err := os.ReadFile(backend)
				check(b, err)
				_, err = fmt.Sscan(string(text), &ns)
				check(b, err)
				return ns
			}
			once(b, bank)
			before := used()
			for b.Loop() {
				once(b, bank)
			}
			b.ReportMetric((used()-before)/float64(b.N), "backend-ns/op")
		})
	}
}
