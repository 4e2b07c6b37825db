package main

import (
	"context"

	"github.com/txmgr/txmgr/participant/mariadb"
	"github.com/txmgr/txmgr/participant/postgres"
	"github.com/txmgr/txmgr/txn"
)

// txmgr is the same work with txmgr's SDK. The coordinator is passed as a user passes it, without a
// wrapper that would hide what else it can do.
type txmgr struct {
	coordinator txn.Manager
	bank        *postgres.DB
	stock       *mariadb.DB
}

func newTxmgr(m txn.Manager, p *pools) *txmgr {
	return &txmgr{coordinator: m, bank: postgres.New(bankName, p.pg), stock: mariadb.New(stockName, p.my)}
}

var (
	transfer   = txn.Options{Name: "transfer"}
	onDecision = txn.Options{Name: "transfer", ReturnOnDecision: true}
	onLast     = txn.Options{Name: "transfer", LastDecides: true}
)

func (t *txmgr) pair(ctx context.Context, worker int) error { return t.both(ctx, transfer, worker) }

// decision is pair that returns before phase two, which goes on while the worker's next transaction begins.
func (t *txmgr) decision(ctx context.Context, worker int) error {
	return t.both(ctx, onDecision, worker)
}

// last is pair that MariaDB decides, whose branch is the last one.
func (t *txmgr) last(ctx context.Context, worker int) error { return t.both(ctx, onLast, worker) }

func (t *txmgr) both(ctx context.Context, o txn.Options, worker int) error {
	return txn.Run(ctx, t.coordinator, o, func(ctx context.Context, tx *txn.Tx) error {
		if _, err := t.bank.Exec(ctx, tx, pgUpdate, 1, worker); err != nil {
			return err
		}
		_, err := t.stock.Exec(ctx, tx, myUpdate, 1, worker)
		return err
	})
}

func (t *txmgr) onlyPG(ctx context.Context, worker int) error {
	return txn.Run(ctx, t.coordinator, transfer, func(ctx context.Context, tx *txn.Tx) error {
		_, err := t.bank.Exec(ctx, tx, pgUpdate, 1, maxWorkers+worker)
		return err
	})
}

func (t *txmgr) onlyMy(ctx context.Context, worker int) error {
	return txn.Run(ctx, t.coordinator, transfer, func(ctx context.Context, tx *txn.Tx) error {
		_, err := t.stock.Exec(ctx, tx, myUpdate, 1, maxWorkers+worker)
		return err
	})
}

// empty begins and commits a transaction without branches: the coordinator alone.
func (t *txmgr) empty(ctx context.Context, _ int) error {
	begun, err := t.coordinator.Begin(ctx, transfer)
	if err != nil {
		return err
	}
	_, err = t.coordinator.Commit(ctx, begun.ID, txn.CommitRequest{})
	return err
}
