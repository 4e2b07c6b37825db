package demo

import (
	"context"

	"github.com/txmgr/txmgr/txn"
	"github.com/txmgr/txmgr/txn/admin"
)

// database is one of the two databases: accounts with balances that must not go
// below zero. The context bounds every call.
type database interface {
	name() string
	// registration is the registration for the coordinator.
	registration() admin.Participant
	// describe describes it for the banner.
	describe() string
	// create creates the accounts.
	create(ctx context.Context, balances map[string]int64) error
	// add changes an account within a global transaction. A balance below zero is
	// refused, by the statement or when the branch prepares.
	add(ctx context.Context, tx *txn.Tx, account string, amount int64) error
	// deposit changes an account in a transaction of the database alone, and
	// waits for locks.
	deposit(ctx context.Context, account string, amount int64) error
	// balances reads all accounts.
	balances(ctx context.Context) (map[string]int64, error)
	// prepared lists the prepared branches of the database or of its server.
	prepared(ctx context.Context, prefix string) ([]string, error)
	// rollbackManually ends a prepared branch as an operator does at the database, and returns the
	// command typed.
	rollbackManually(ctx context.Context, xid string) (typed string, err error)
	// close removes the accounts and closes the connections.
	close(ctx context.Context) error
}
