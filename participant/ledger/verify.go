package ledger

import (
	"context"
	"fmt"
	"strings"

	"go.etcd.io/bbolt"
)

// Verify reads the whole ledger and reports inconsistencies.
func (l *Ledger) Verify(ctx context.Context) error { return l.store.view(ctx, verify) }

func verify(tx *bbolt.Tx) error {
	locked := map[string]string{}
	err := each(tx, bucketLocks, decodeText, func(name, xid string) error {
		locked[name] = xid
		return nil
	})
	if err != nil {
		return err
	}
	err = each(tx, bucketPrepared, decodeBranch, func(xid string, br branch) error {
		for _, name := range br.accounts() {
			if locked[name] != xid {
				return fmt.Errorf("%w: branch %s changes account %s, which is locked by %q", ErrCorrupt, xid, name, locked[name])
			}
			delete(locked, name)
		}
		_, ended, err := load(tx, bucketOutcomes, xid, decodeOutcome)
		if err == nil && ended {
			return fmt.Errorf("%w: branch %s has ended and is prepared", ErrCorrupt, xid)
		}
		return err
	})
	if err != nil {
		return err
	}
	if left := sortedKeys(locked); len(left) != 0 {
		return fmt.Errorf("%w: accounts %s are locked, but not by a prepared branch", ErrCorrupt, strings.Join(left, ", "))
	}
	return verifyRest(tx)
}

func verifyRest(tx *bbolt.Tx) error {
	err := each(tx, bucketAccounts, decodeAccount, func(name string, a account) error {
		if a.balance < 0 {
			return fmt.Errorf("%w: account %s has the balance %d", ErrCorrupt, name, a.balance)
		}
		return nil
	})
	if err != nil {
		return err
	}
	if err := each(tx, bucketOutcomes, decodeOutcome, func(string, outcomeRecord) error { return nil }); err != nil {
		return err
	}
	return each(tx, bucketOrder, decodeText, func(string, string) error { return nil })
}
