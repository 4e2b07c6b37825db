package ledger

import (
	"fmt"
	"math"
	"time"

	"go.etcd.io/bbolt"

	"github.com/txmgr/txmgr/participant"
	"github.com/txmgr/txmgr/txn"
)

// rejection is an answer, not a failure: the ledger checked and refuses.
type rejection struct{ why string }

func (r rejection) Error() string { return r.why }

func reject(format string, args ...any) error { return rejection{fmt.Sprintf(format, args...)} }

// work is what a branch wants to have done: reads, with the version that was seen, and changes.
type work struct {
	reads   map[string]uint64
	changes map[string]change
}

// check refuses work that cannot be promised, for a branch or for none ("").
func check(tx *bbolt.Tx, w work) error {
	for _, name := range sortedKeys(w.reads) {
		if err := checkUnlocked(tx, name); err != nil {
			return err
		}
		a, err := loadAccount(tx, name)
		if err != nil {
			return err
		}
		if a.version != w.reads[name] {
			return reject("account %s has changed since it was read", name)
		}
	}
	for _, name := range sortedKeys(w.changes) {
		if err := checkUnlocked(tx, name); err != nil {
			return err
		}
		if _, err := changedAccount(tx, name, w.changes[name]); err != nil {
			return err
		}
	}
	return nil
}

func checkUnlocked(tx *bbolt.Tx, name string) error {
	holder, locked, err := load(tx, bucketLocks, name, decodeText)
	if err == nil && locked {
		return reject("account %s is locked by the prepared branch %s", name, holder)
	}
	return err
}

// changedAccount is what an account would be after a change.
func changedAccount(tx *bbolt.Tx, name string, c change) (account, error) {
	a, err := loadAccount(tx, name)
	if err != nil {
		return account{}, err
	}
	before := a.balance
	if c.set {
		before = 0
	}
	switch {
	case c.amount > 0 && before > math.MaxInt64-c.amount:
		return account{}, reject("account %s would go above %d", name, int64(math.MaxInt64))
	case before < 0 || c.amount < -before:
		return account{}, reject("account %s would go below zero: %d%+d", name, before, c.amount)
	}
	return account{version: a.version + 1, balance: before + c.amount}, nil
}

// prepare records the work under a name and locks what it changes.
func prepare(tx *bbolt.Tx, xid string, w work, now time.Time) error {
	e, ended, err := load(tx, bucketOutcomes, xid, decodeOutcome)
	if err != nil {
		return err
	}
	switch {
	case ended && e.outcome == participant.Committed:
		return fmt.Errorf("%w: branch %s was committed by another session", txn.ErrEndedByApplication, xid)
	case ended:
		return reject("branch %s has ended already: %v", xid, e.outcome)
	}
	_, found, err := load(tx, bucketPrepared, xid, decodeBranch)
	if err != nil {
		return err
	}
	if found {
		return reject("branch %s is prepared already", xid)
	}
	if err := check(tx, w); err != nil {
		return err
	}
	br := branch{since: now, changes: w.changes}
	for _, name := range br.accounts() {
		if err := put(tx, bucketLocks, []byte(name), []byte(xid)); err != nil {
			return err
		}
	}
	return put(tx, bucketPrepared, []byte(xid), br.encode())
}

// apply makes changes; the caller has checked them, or has them locked.
func apply(tx *bbolt.Tx, changes map[string]change) error {
	after := make(map[string]account, len(changes))
	for name, c := range changes {
		a, err := changedAccount(tx, name, c)
		if err != nil {
			return err
		}
		after[name] = a
	}
	for _, name := range sortedKeys(after) {
		if err := put(tx, bucketAccounts, []byte(name), after[name].encode()); err != nil {
			return err
		}
	}
	return nil
}

// commit finishes a prepared branch, or says how it ended before. It is
// [participant.Unknown] when nothing is known of the branch.
func commit(tx *bbolt.Tx, xid string, now time.Time) (participant.BranchOutcome, error) {
	br, prepared, err := load(tx, bucketPrepared, xid, decodeBranch)
	if err != nil {
		return 0, err
	}
	if !prepared {
		e, known, err := load(tx, bucketOutcomes, xid, decodeOutcome)
		if err != nil || known {
			return e.outcome, err
		}
		return participant.Unknown, nil
	}
	if err := apply(tx, br.changes); err != nil {
		return 0, fmt.Errorf("%w: branch %s: %w", ErrCorrupt, xid, err) // it was checked and locked
	}
	return participant.Committed, finish(tx, xid, br, participant.Committed, now)
}

// rollback undoes a prepared branch, or says how it ended before. A branch that is not known is
// recorded as rolled back.
func rollback(tx *bbolt.Tx, xid string, now time.Time) (participant.BranchOutcome, error) {
	br, _, err := load(tx, bucketPrepared, xid, decodeBranch)
	if err != nil {
		return 0, err
	}
	e, known, err := load(tx, bucketOutcomes, xid, decodeOutcome)
	if err != nil || known {
		return e.outcome, err
	}
	return participant.RolledBack, finish(tx, xid, br, participant.RolledBack, now)
}

func finish(tx *bbolt.Tx, xid string, br branch, outcome participant.BranchOutcome, now time.Time) error {
	for _, name := range br.accounts() {
		if err := tx.Bucket(bucketLocks).Delete([]byte(name)); err != nil {
			return err
		}
	}
	if err := tx.Bucket(bucketPrepared).Delete([]byte(xid)); err != nil {
		return err
	}
	return recordOutcome(tx, xid, outcome, now)
}
