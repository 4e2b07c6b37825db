package main

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/txmgr/txmgr/internal/testdb"
	"github.com/txmgr/txmgr/node"
	"github.com/txmgr/txmgr/participant"
	"github.com/txmgr/txmgr/participant/postgres"
	"github.com/txmgr/txmgr/server"
	"github.com/txmgr/txmgr/txn"
	"github.com/txmgr/txmgr/txn/admin"
)

func TestTransfer(t *testing.T) {
	db := testdb.OpenPostgres(t, testdb.PostgresConfig{})
	n, address := coordinator(t)
	dsn := map[string]string{}
	for _, name := range []string{"from", "to"} {
		dsn[name] = db.DSN(db.NewDatabase(t, name))
		exec(t, dsn[name], "CREATE TABLE account (id int PRIMARY KEY, balance int CHECK (balance >= 0))", "INSERT INTO account VALUES (1, 100)")
		p := admin.Participant{Name: name, Kind: postgres.Kind, Settings: map[string]string{"dsn": dsn[name]}}
		if err := n.Admin().AddParticipant(t.Context(), p, "", ""); err != nil {
			t.Fatal(err)
		}
	}
	if err := run(t.Context(), address, dsn["from"], dsn["to"], 30); err != nil {
		t.Errorf("transfer of 30: %v", err)
	}
	// The payer has 70 left: the constraint fails, and nothing happens anywhere.
	err := run(t.Context(), address, dsn["from"], dsn["to"], 80)
	if err == nil || errors.Is(err, txn.ErrInDoubt) {
		t.Errorf("transfer of 80: %v", err)
	}
	for name, want := range map[string]int{"from": 70, "to": 130} {
		if got := balance(t, dsn[name]); got != want {
			t.Errorf("%s has %d, want %d", name, got, want)
		}
	}
}

func coordinator(t *testing.T) (*node.Node, string) {
	log := slog.New(slog.DiscardHandler)
	n, err := node.Open(t.Context(), node.Config{
		DataDir: t.TempDir(), Logger: log,
		Drivers: map[string]participant.Driver{postgres.Kind: postgres.Driver},
	})
	if err != nil {
		t.Fatal(err)
	}
	s, err := server.New(server.Config{Log: log}, n)
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	served := make(chan error, 1)
	go func() { served <- s.Serve(ctx, l) }()
	t.Cleanup(func() {
		stop()
		if err := errors.Join(<-served, n.Close()); err != nil {
			t.Error(err)
		}
	})
	return n, "http://" + l.Addr().String()
}

func exec(t *testing.T, dsn string, statements ...string) {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), dsn)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(context.Background())
	for _, sql := range statements {
		if _, err := conn.Exec(t.Context(), sql); err != nil {
			t.Fatalf("%s: %v", sql, err)
		}
	}
}

func balance(t *testing.T, dsn string) (b int) {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), dsn)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(context.Background())
	if err := conn.QueryRow(t.Context(), "SELECT balance FROM account WHERE id = 1").Scan(&b); err != nil {
		t.Fatal(err)
	}
	return b
}
