package sdk

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/txmgr/txmgr/client"
	"github.com/txmgr/txmgr/node"
	"github.com/txmgr/txmgr/participant"
	"github.com/txmgr/txmgr/participant/ledger"
	"github.com/txmgr/txmgr/participant/postgres"
	"github.com/txmgr/txmgr/txn"
	"github.com/txmgr/txmgr/txn/admin"
)

// A coordinator in the application's own process: the same Manager, no server.
func Example_embedded() {
	n, err := node.Open(context.Background(), node.Config{
		DataDir: directory + "/embedded",
		Drivers: map[string]participant.Driver{ledger.Kind: ledger.Driver},
		Logger:  slog.New(slog.DiscardHandler),
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer n.Close()
	for _, name := range []string{"left", "right"} {
		err := n.Admin().AddParticipant(context.Background(), admin.Participant{
			Name: name, Kind: ledger.Kind, Settings: map[string]string{"path": directory + "/" + name},
		}, "", "")
		if err != nil {
			fmt.Println(err)
			return
		}
	}
	left, right := ledger.New("left", directory+"/left"), ledger.New("right", directory+"/right")
	err = txn.Run(context.Background(), n, txn.Options{}, func(ctx context.Context, tx *txn.Tx) error {
		if err := left.Add(ctx, tx, "alice", 10); err != nil {
			return err
		}
		return right.Add(ctx, tx, "bob", 10)
	})
	fmt.Println(err)
	// Output:
	// <nil>
}

// When the answer to a commit is lost, the error says so, and carries the id for a query. Only the
// answer is lost: the outcome is in the coordinator's log.
func Example_inDoubt() {
	reset()
	m, err := client.Dial(address)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer m.Close()
	bank := postgres.New("bank", pool)
	err = txn.Run(context.Background(), m, txn.Options{Name: "pay"}, func(ctx context.Context, tx *txn.Tx) error {
		_, err := bank.Exec(ctx, tx, `UPDATE account SET balance = balance - 10 WHERE id = 1`)
		return err
	})
	var e *txn.Error
	switch {
	case err == nil:
		fmt.Println("committed")
	case errors.Is(err, txn.ErrRolledBack):
		fmt.Println("surely nothing happened:", err)
	case errors.Is(err, txn.ErrInDoubt) && errors.As(err, &e):
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		info, err := m.Wait(ctx, e.ID, txn.UntilDecided)
		fmt.Println(info.State, err)
	default:
		fmt.Println("it did not even begin:", err)
	}
	show()
	// Output:
	// committed
	// balance 90, items 3, letters 0
}

// A session is a lease of the process. Transactions begun in it are rolled back soon after the
// process has crashed, long before their timeout.
func Example_session() {
	reset()
	m, err := client.Dial(address)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer m.Close()
	bank := postgres.New("bank", pool)
	pay := func() error {
		s, err := m.OpenSession(context.Background(), client.SessionOptions{Name: "shop", TTL: 8 * time.Second})
		if err != nil {
			return err
		}
		defer s.Close(context.Background())
		ctx := client.WithSession(context.Background(), s)
		err = txn.Run(ctx, m, txn.Options{Name: "pay", Timeout: time.Hour}, func(ctx context.Context, tx *txn.Tx) error {
			_, err := bank.Exec(ctx, tx, `UPDATE account SET balance = balance - 10 WHERE id = 1`)
			return err
		})
		return err
	}
	fmt.Println(pay())
	finished(m)
	show()
	// Output:
	// <nil>
	// balance 90, items 3, letters 0
}

// finished waits until every transaction is complete: a query of the databases before that may find
// some of them committed and others not yet.
func finished(m *client.Client) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	list, err := m.List(ctx, admin.Filter{States: []txn.State{txn.Committing, txn.RollingBack}})
	for _, i := range list {
		_, e := m.Wait(ctx, i.ID, txn.UntilFinished)
		err = errors.Join(err, e)
	}
	if err != nil {
		panic(err)
	}
}
