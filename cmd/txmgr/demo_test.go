package main

import (
	"bufio"
	"bytes"
	"io"
	"os"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/txmgr/txmgr/internal/testdb"
)

// TestInterruptedDemoLeavesNothing interrupts the demo at its worst moments, on databases that
// outlive it.
func TestInterruptedDemoLeavesNothing(t *testing.T) {
	server := testdb.OpenPostgres(t, testdb.PostgresConfig{NoFsync: true})
	for _, c := range []struct{ nodes, moment string }{
		{"1", "the decision to commit is on disk"},
		{"3", "is decided to commit, by a majority"},
		{"3", "transfers begin at once"},
	} {
		moment := c.moment
		t.Run(moment, func(t *testing.T) {
			t.Parallel()
			a, b := server.NewDatabase(t, "a"), server.NewDatabase(t, "b")
			tmp := t.TempDir()
			demo := txmgr(t, "", "demo", "--nodes", c.nodes, "--databases", "bank="+server.DSN(a)+",savings="+server.DSN(b))
			demo.Env = append(demo.Env, "TMPDIR="+tmp)
			var said bytes.Buffer
			demo.Stderr = &said
			out, err := demo.StdoutPipe()
			if err != nil {
				t.Fatal(err)
			}
			if err := demo.Start(); err != nil {
				t.Fatal(err)
			}
			lines := bufio.NewReader(out)
			for line := ""; !strings.Contains(line, moment); {
				if line, err = lines.ReadString('\n'); err != nil {
					t.Fatalf("the demo ended before %q: %v: %s", moment, err, said.String())
				}
			}
			if err := demo.Process.Signal(os.Interrupt); err != nil {
				t.Fatal(err)
			}
			_, _ = io.Copy(io.Discard, lines) // until it ends
			_ = demo.Wait()
			if got := demo.ProcessState.ExitCode(); got != 130 {
				t.Errorf("exit code %d, want 130: %s", got, said.String())
			}
			for _, database := range []string{a, b} {
				wantNothingLeft(t, server.DSN(database))
			}
			if left, err := os.ReadDir(tmp); err != nil || len(left) != 0 {
				t.Errorf("left behind: %v, %v", left, err)
			}
		})
	}
}

func wantNothingLeft(t *testing.T, dsn string) {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), dsn)
	if err != nil {
		t.Fatal(err)
	}
	var prepared, objects int
	err = conn.QueryRow(t.Context(), `
		SELECT (SELECT count(*) FROM pg_prepared_xacts WHERE database = current_database()),
			(SELECT count(*) FROM pg_class WHERE relname LIKE '%demo%') + (SELECT count(*) FROM pg_proc WHERE proname LIKE '%demo%')`).Scan(&prepared, &objects)
	if err != nil || prepared != 0 || objects != 0 {
		t.Errorf("left behind: %d prepared, %d tables and functions: %v", prepared, objects, err)
	}
	if err := conn.Close(t.Context()); err != nil {
		t.Error(err)
	}
}
