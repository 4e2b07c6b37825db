package ledger

import (
	"context"
	"errors"
	"fmt"
	"time"

	"go.etcd.io/bbolt"

	"github.com/txmgr/txmgr/participant"
	"github.com/txmgr/txmgr/txn"
)

var (
	_ txn.OnePhaser       = (*session)(nil)
	_ participant.Settler = (*resource)(nil)
)

// OnePhase implements [txn.OnePhaser]. Work that changes nothing has nothing to
// prove.
func (s *session) OnePhase() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.begun.known && !s.over && len(s.changes) > 0
}

// CommitOnePhase implements [txn.OnePhaser]: what prepare and commit do, in one
// transaction of the file.
func (s *session) CommitOnePhase(ctx context.Context) (txn.BranchState, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.over = true
	w := s.workLocked()
	err := s.store.update(ctx, func(tx *bbolt.Tx) error { return commitOnePhase(tx, s.xid, s.begun, w, time.Now()) })
	switch {
	case errors.As(err, new(refusal)):
		return txn.BranchRolledBack, err
	case err != nil:
		return 0, err
	}
	return txn.BranchCommitted, nil
}

// commitOnePhase does work that was not prepared and remembers the end. It refuses
// when the branch was settled before, and when that may have been forgotten.
func commitOnePhase(tx *bbolt.Tx, xid string, since begun, w work, now time.Time) error {
	e, ended, err := load(tx, bucketEnds, xid, decodeEnd)
	if err != nil {
		return err
	}
	switch {
	case ended && e.ending == participant.RolledBack:
		return refuse("branch %s has ended already: %v", xid, e.ending)
	case ended: // by another session: this one's work is not in it, and yet the branch is no rolled-back one
		return fmt.Errorf("%w: branch %s was committed by another session", txn.ErrEndedByHand, xid)
	}
	if _, found, err := load(tx, bucketPrepared, xid, decodeBranch); err != nil || found {
		return errors.Join(err, fmt.Errorf("branch %s is prepared", xid)) // by somebody else, and it is not known how that ends
	}
	if old, err := forgot(tx, since); err != nil || old {
		return errors.Join(err, refuse("the session of branch %s is so old that its end may have been forgotten", xid))
	}
	if err := check(tx, w); err != nil {
		return err
	}
	if err := apply(tx, w.changes); err != nil {
		return err
	}
	return remember(tx, xid, participant.Committed, now)
}

// Settle implements [participant.Settler]. A branch that has no end is remembered
// as rolled back, so that its session is refused.
func (r *resource) Settle(ctx context.Context, b participant.Branch) (participant.Result, error) {
	if err := r.own(b); err != nil {
		return participant.Result{}, err
	}
	since, _ := parseBegun(b.Session) // without one, nothing may have been forgotten yet
	return r.result(r.store.finish(ctx, b.XID, func(tx *bbolt.Tx, xid string, now time.Time) (participant.Ending, error) {
		return settle(tx, xid, since, now)
	}))
}

func settle(tx *bbolt.Tx, xid string, since begun, now time.Time) (participant.Ending, error) {
	e, known, err := load(tx, bucketEnds, xid, decodeEnd)
	if err != nil || known {
		return e.ending, err
	}
	_, prepared, err := load(tx, bucketPrepared, xid, decodeBranch)
	switch {
	case err != nil:
		return 0, err
	case prepared:
		return 0, fmt.Errorf("branch %s is prepared, and waits to be told", xid)
	}
	old, err := forgot(tx, since)
	switch {
	case err != nil:
		return 0, err
	case old:
		return participant.Unknown, nil
	}
	return participant.RolledBack, remember(tx, xid, participant.RolledBack, now)
}
