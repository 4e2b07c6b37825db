package demo

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/txmgr/txmgr/participant"
	"github.com/txmgr/txmgr/participant/ledger"
	"github.com/txmgr/txmgr/txn"
	"github.com/txmgr/txmgr/txn/admin"
)

// ledgerDatabase is an embedded ledger.
type ledgerDatabase struct {
	label, path string
	l           *ledger.Ledger
}

func newLedgerDatabase(name, dir string) *ledgerDatabase {
	path := filepath.Join(dir, name+".db")
	return &ledgerDatabase{label: name, path: path, l: ledger.New(name, path)}
}

func (d *ledgerDatabase) name() string { return d.label }

func (d *ledgerDatabase) describe() string { return "embedded ledger" }

func (d *ledgerDatabase) registration() admin.Participant {
	return admin.Participant{Name: d.label, Kind: ledger.Kind, Settings: map[string]string{"path": d.path}}
}

func (d *ledgerDatabase) create(ctx context.Context, balances map[string]int64) error {
	var b strings.Builder
	for name, balance := range balances {
		fmt.Fprintf(&b, "set %s %d\n", name, balance)
	}
	_, err := d.l.Local(ctx, b.String())
	return err
}

func (d *ledgerDatabase) add(ctx context.Context, tx *txn.Tx, account string, amount int64) error {
	return d.l.Add(ctx, tx, account, amount)
}

// deposit retries while the account is locked: a ledger refuses a locked account, it does not wait.
func (d *ledgerDatabase) deposit(ctx context.Context, account string, amount int64) error {
	again := time.NewTicker(10 * time.Millisecond)
	defer again.Stop()
	for {
		_, err := d.l.Local(ctx, fmt.Sprintf("add %s %d", account, amount))
		if err == nil {
			return nil
		}
		if locked, lookErr := d.locked(ctx, account); lookErr != nil || !locked {
			_, err = d.l.Local(ctx, fmt.Sprintf("add %s %d", account, amount)) // it may just have been freed
			return err
		}
		select {
		case <-again.C:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

func (d *ledgerDatabase) locked(ctx context.Context, account string) (bool, error) {
	list, err := d.l.Prepared(ctx)
	return slices.ContainsFunc(list, func(p ledger.Prepared) bool { return slices.Contains(p.Accounts, account) }), err
}

func (d *ledgerDatabase) balances(ctx context.Context) (map[string]int64, error) {
	return d.l.Balances(ctx)
}

func (d *ledgerDatabase) prepared(ctx context.Context, prefix string) ([]string, error) {
	list, err := d.l.Prepared(ctx)
	var xids []string
	for _, p := range list {
		if strings.HasPrefix(p.XID, prefix) {
			xids = append(xids, p.XID)
		}
	}
	return xids, err
}

// rollbackManually rolls a branch back without the coordinator.
func (d *ledgerDatabase) rollbackManually(ctx context.Context, xid string) (string, error) {
	cluster, id, branch, _ := txn.ParseXID(xid)
	p, err := ledger.Driver(ctx, d.registration(), cluster)
	if err != nil {
		return "", err
	}
	_, err = p.Rollback(ctx, participant.Branch{TX: id, ID: branch, XID: xid})
	return "a rollback of " + xid, errors.Join(err, p.Close())
}

// close leaves the file; it is removed with its directory.
func (d *ledgerDatabase) close(context.Context) error { return nil }
