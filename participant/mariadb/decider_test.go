package mariadb

import (
	"context"
	"log/slog"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/txmgr/txmgr/internal/testdb"
	"github.com/txmgr/txmgr/node"
	"github.com/txmgr/txmgr/participant"
	"github.com/txmgr/txmgr/participant/postgres"
	"github.com/txmgr/txmgr/recovery"
	"github.com/txmgr/txmgr/txn"
	"github.com/txmgr/txmgr/txn/admin"
)

// readCounter sends a value for every outcome that it was asked to read.
type readCounter struct {
	*resourceManager

	reads chan<- struct{}
}

func (r readCounter) ReadOutcome(ctx context.Context, b participant.Branch) (res participant.Result, known bool, err error) {
	defer func() { r.reads <- struct{}{} }()
	return r.resourceManager.ReadOutcome(ctx, b)
}

// TestDeciderOfADeadApplication: an application prepares its branch on PostgreSQL, commits the one on MariaDB, which decides, and
// dies before it has told anyone. The coordinator finds the commit long before the deadline. Until then it asks about a
// branch that is open, and does not disturb it.
func TestDeciderOfADeadApplication(t *testing.T) {
	bank, pg := newBank(t), testdb.OpenPostgres(t, testdb.PostgresConfig{})
	stock := pg.DSN(pg.NewDatabase(t, "stock"))
	conn, err := pgx.Connect(t.Context(), stock)
	check(t, err)
	defer func() { check(t, conn.Close(context.Background())) }()
	query := func(sql string) (n int) {
		t.Helper()
		check(t, conn.QueryRow(t.Context(), sql).Scan(&n))
		return n
	}
	_, err = conn.Exec(t.Context(), "CREATE TABLE item (id int PRIMARY KEY, n int)")
	check(t, err)
	_, err = conn.Exec(t.Context(), "INSERT INTO item VALUES (1, 0)")
	check(t, err)
	bank.exec(t, "INSERT INTO account VALUES ('alice', 100)")

	reads := make(chan struct{}, 1000)
	n, err := node.Open(t.Context(), node.Config{
		DataDir: t.TempDir(), Logger: slog.New(slog.DiscardHandler), Recovery: recovery.Config{SweepEvery: 100 * time.Millisecond},
		Drivers: map[string]participant.Driver{
			postgres.Kind: postgres.Driver,
			Kind: func(ctx context.Context, p admin.Participant, cluster string) (participant.Participant, error) {
				r, err := Driver(ctx, p, cluster)
				if err != nil {
					return nil, err
				}
				return readCounter{r.(*resourceManager), reads}, nil
			},
		},
	})
	check(t, err)
	t.Cleanup(func() { check(t, n.Close()) })
	check(t, n.Admin().AddParticipant(t.Context(), admin.Participant{Name: "stock", Kind: postgres.Kind, Settings: map[string]string{"dsn": stock}}, "", ""))
	check(t, n.Admin().AddParticipant(t.Context(), admin.Participant{Name: "bank", Kind: Kind, Settings: map[string]string{"dsn": bank.dsn}}, "", ""))

	begun, err := n.Begin(t.Context(), txn.Options{Timeout: time.Minute, Branches: []txn.Enlistment{{Participant: "stock"}}})
	check(t, err)
	cluster, _, _, _ := txn.ParseXID(begun.Branches[0].XID)
	w := bank.work(t, txn.XID(cluster, begun.ID, 2), "UPDATE account SET balance = balance - 10 WHERE id = 'alice'")
	if !w.OnePhase() {
		t.Fatal("it cannot prove its end")
	}
	branch, err := n.Enlist(t.Context(), begun.ID, txn.Enlistment{Participant: "bank", SessionRef: w.sessionRef.String(), Decides: true})
	check(t, err)
	if branch.ID != 2 {
		t.Fatalf("%+v", branch)
	}
	app, err := pgx.Connect(t.Context(), stock)
	check(t, err)
	for _, sql := range []string{"BEGIN", "UPDATE item SET n = n + 1 WHERE id = 1", "PREPARE TRANSACTION '" + begun.Branches[0].XID + "'"} {
		_, err = app.Exec(t.Context(), sql)
		check(t, err)
	}
	check(t, app.Close(t.Context()))

	for range 3 {
		<-reads
	}
	info, err := n.Get(t.Context(), begun.ID)
	if err != nil || info.State != txn.Active || query("SELECT count(*) FROM pg_prepared_xacts WHERE database = current_database()") != 1 {
		t.Errorf("while the branch is open: %v, %v", info.State, err)
	}
	state, err := w.CommitOnePhase(t.Context())
	w.Release()
	if state != txn.BranchCommitted || err != nil {
		t.Fatalf("the branch was disturbed: %v, %v", state, err)
	}

	died := time.Now()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	info, err = n.Wait(ctx, begun.ID, txn.UntilFinished)
	took := time.Since(died)
	t.Logf("committed %v after the commit that decides", took.Round(time.Millisecond))
	if err != nil || info.State != txn.Committed || info.Heuristic != 0 || took > 50*time.Second {
		t.Errorf("%+v, %v, after %v", info, err, took)
	}
	if got := query("SELECT n FROM item"); got != 1 || bank.balance(t, "alice") != 90 {
		t.Errorf("stock has %d, alice %d", got, bank.balance(t, "alice"))
	}
}
