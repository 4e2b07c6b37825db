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
	_ txn.OnePhaseCommitter       = (*branchTx)(nil)
	_ participant.OutcomeResolver = (*resourceManager)(nil)
	_ participant.OutcomeReader   = (*resourceManager)(nil)
)

// OnePhase implements [txn.OnePhaseCommitter]. Work that changes nothing needs no proof.
func (s *branchTx) OnePhase() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.startMark.known && !s.over && len(s.changes) > 0
}

// CommitOnePhase implements [txn.OnePhaseCommitter]: what prepare and commit do, in one
// transaction of the file.
func (s *branchTx) CommitOnePhase(ctx context.Context) (txn.BranchState, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.over = true
	w := s.workLocked()
	err := s.store.update(ctx, func(tx *bbolt.Tx) error { return commitOnePhase(tx, s.xid, s.startMark, w, time.Now()) })
	switch {
	case errors.As(err, new(rejection)):
		return txn.BranchRolledBack, err
	case err != nil:
		return 0, err
	}
	return txn.BranchCommitted, nil
}

// commitOnePhase does work that was not prepared and records the outcome. It refuses when the
// outcome was resolved before, and when that may have been forgotten.
func commitOnePhase(tx *bbolt.Tx, xid string, since startMark, w work, now time.Time) error {
	e, ended, err := load(tx, bucketOutcomes, xid, decodeOutcome)
	if err != nil {
		return err
	}
	switch {
	case ended && e.outcome == participant.RolledBack:
		return reject("branch %s has ended already: %v", xid, e.outcome)
	case ended: // with the work of another connection: this one's is not in it, and yet the branch is not rolled back
		return fmt.Errorf("%w: branch %s was committed by another session", txn.ErrEndedByApplication, xid)
	}
	if _, found, err := load(tx, bucketPrepared, xid, decodeBranch); err != nil || found {
		return errors.Join(err, fmt.Errorf("branch %s is prepared", xid)) // by another connection, and it is not known how that ends
	}
	if old, err := mayHaveForgotten(tx, since); err != nil || old {
		return errors.Join(err, reject("the session of branch %s is so old that its end may have been forgotten", xid))
	}
	if err := check(tx, w); err != nil {
		return err
	}
	if err := apply(tx, w.changes); err != nil {
		return err
	}
	return recordOutcome(tx, xid, participant.Committed, now)
}

// ResolveOutcome implements [participant.OutcomeResolver]. A branch that has no outcome is
// recorded as rolled back, so that its later commit is refused.
func (r *resourceManager) ResolveOutcome(ctx context.Context, b participant.Branch) (participant.Result, error) {
	if err := r.own(b); err != nil {
		return participant.Result{}, err
	}
	since, _ := parseStartMark(b.SessionRef) // without one, nothing may have been forgotten yet
	return r.result(r.store.finish(ctx, b.XID, func(tx *bbolt.Tx, xid string, now time.Time) (participant.BranchOutcome, error) {
		return resolveOutcome(tx, xid, since, now)
	}))
}

func resolveOutcome(tx *bbolt.Tx, xid string, since startMark, now time.Time) (participant.BranchOutcome, error) {
	e, known, err := load(tx, bucketOutcomes, xid, decodeOutcome)
	if err != nil || known {
		return e.outcome, err
	}
	_, prepared, err := load(tx, bucketPrepared, xid, decodeBranch)
	switch {
	case err != nil:
		return 0, err
	case prepared:
		return 0, fmt.Errorf("branch %s is prepared, and waits to be told", xid)
	}
	old, err := mayHaveForgotten(tx, since)
	switch {
	case err != nil:
		return 0, err
	case old:
		return participant.Unknown, nil
	}
	return participant.RolledBack, recordOutcome(tx, xid, participant.RolledBack, now)
}

// ReadOutcome implements [participant.OutcomeReader].
func (r *resourceManager) ReadOutcome(ctx context.Context, b participant.Branch) (_ participant.Result, known bool, err error) {
	if err := r.own(b); err != nil {
		return participant.Result{}, false, err
	}
	var e outcomeRecord
	err = r.store.viewIfExists(ctx, func(tx *bbolt.Tx) (err error) {
		e, known, err = load(tx, bucketOutcomes, b.XID, decodeOutcome)
		return err
	})
	if err != nil || !known {
		return participant.Result{}, false, err
	}
	return participant.Result{Outcome: e.outcome, Detail: recordDetail}, true, nil
}
