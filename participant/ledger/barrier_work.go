package ledger

import (
	"context"
	"fmt"

	"github.com/txmgr/txmgr/txn"
)

// Work is what a step of a [Barrier] does in the ledger. It exists only in memory until the
// step has ended; then all of it is done, or nothing. Errors of bad arguments are
// [txn.ErrInvalid]. Safe for concurrent use; after the step it returns [txn.ErrNotActive].
type Work struct{ tx *branchTx }

// Add adds to an account; a negative amount takes away.
func (w *Work) Add(ctx context.Context, account string, amount int64) error {
	_, err := w.run(ctx, statement{"add", []string{account}, amount})
	return err
}

// Set sets the balance of an account.
func (w *Work) Set(ctx context.Context, account string, balance int64) error {
	_, err := w.run(ctx, statement{"set", []string{account}, balance})
	return err
}

// Move takes an amount from an account and adds it to another.
func (w *Work) Move(ctx context.Context, from, to string, amount int64) error {
	_, err := w.run(ctx, statement{"move", []string{from, to}, amount})
	return err
}

// Get reads the balance of an account, with what this step has changed. The step has to be
// tried again when another request changes the account before it has ended.
func (w *Work) Get(ctx context.Context, account string) (int64, error) {
	return w.run(ctx, statement{"get", []string{account}, 0})
}

func (w *Work) run(ctx context.Context, st statement) (int64, error) {
	if err := st.check(); err != nil {
		return 0, fmt.Errorf("%w: %s: %w", txn.ErrInvalid, st.verb, err)
	}
	return w.tx.do(ctx, st)
}

// close ends the work and returns it.
func (w *Work) close() work {
	w.tx.mu.Lock()
	defer w.tx.mu.Unlock()
	w.tx.over = true
	return w.tx.workLocked()
}
