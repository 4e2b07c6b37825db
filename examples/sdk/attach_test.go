package sdk

import (
	"context"
	"fmt"
	"net/http"

	"github.com/txmgr/txmgr/client"
	"github.com/txmgr/txmgr/participant/mariadb"
	"github.com/txmgr/txmgr/participant/postgres"
	"github.com/txmgr/txmgr/txn"
	"github.com/txmgr/txmgr/txn/txnhttp"
)

// A second service takes part in the transaction of its caller. The caller commits.
func Example_attach() {
	reset()
	m, err := client.Dial(address)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer m.Close()
	bank, stock := postgres.New("bank", pool), mariadb.New("stock", db)

	// The warehouse: a handler that works in the transaction of the request.
	inTransaction := txnhttp.New(m, txnhttp.TrustAll, txnhttp.Options{}) // any client: it listens on loopback only
	defer inTransaction.Close(context.Background())
	warehouse, stop, err := serve(inTransaction.Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		tx, _ := txn.FromContext(r.Context())
		if _, err := stock.Exec(r.Context(), tx, `UPDATE item SET n = n - 1 WHERE id = 7`); err != nil {
			http.Error(w, err.Error(), http.StatusConflict)
		}
	})))
	if err != nil {
		fmt.Println(err)
		return
	}
	defer stop()

	// The shop: it takes the money, and asks the warehouse for the item.
	err = txn.Run(context.Background(), m, txn.Options{Name: "buy"}, func(ctx context.Context, tx *txn.Tx) error {
		if _, err := bank.Exec(ctx, tx, `UPDATE account SET balance = balance - 10 WHERE id = 1`); err != nil {
			return err
		}
		r, err := http.NewRequestWithContext(ctx, http.MethodPost, warehouse, nil)
		if err != nil {
			return err
		}
		txn.Inject(r.Header, tx)
		answer, err := http.DefaultClient.Do(r)
		if err != nil {
			return err
		}
		defer answer.Body.Close()
		if answer.StatusCode != http.StatusOK {
			return fmt.Errorf("warehouse: %s", answer.Status)
		}
		return nil
	})
	fmt.Println(err)
	finished(m)
	show()
	// Output:
	// <nil>
	// balance 90, items 2, letters 0
}
