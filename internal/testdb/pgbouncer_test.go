package testdb

import (
	"os"
	"testing"

	"github.com/jackc/pgx/v5"
)

// TestPoolerGivesOutConnectionsByItsMode: whether a connection keeps its backend while another one
// begins a transaction.
func TestPoolerGivesOutConnectionsByItsMode(t *testing.T) {
	server := OpenPostgres(t, PostgresConfig{NoFsync: true})
	for mode, keeps := range map[string]bool{"session": true, "transaction": false} {
		t.Run(mode, func(t *testing.T) {
			parent := reachable(t)
			b, err := StartPgBouncer(t.Context(), server, PgBouncerConfig{Parent: parent, Mode: mode})
			check(t, err)
			first, other := connectVia(t, b), connectVia(t, b)
			before := backend(t, first)
			execSQL(t, other, "BEGIN")
			if now := backend(t, first); (now == before) != keeps {
				t.Errorf("the session went from backend %d to %d", before, now)
			}
			check(t, b.Close())
			check(t, b.Close())
			if _, err := pgx.Connect(t.Context(), b.DSN("postgres")); err == nil {
				t.Error("a pooler that was closed answers")
			}
			if left, err := os.ReadDir(parent); err != nil || len(left) != 0 {
				t.Errorf("left behind: %v, %v", left, err)
			}
		})
	}
}

func connectVia(t *testing.T, b *PgBouncer) *pgx.Conn {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), b.DSN("postgres"))
	check(t, err)
	t.Cleanup(func() { _ = conn.Close(t.Context()) }) // the pooler may be gone
	return conn
}

func backend(t *testing.T, conn *pgx.Conn) (pid int) {
	t.Helper()
	check(t, conn.QueryRow(t.Context(), "SELECT pg_backend_pid()", pgx.QueryExecModeSimpleProtocol).Scan(&pid))
	return pid
}
