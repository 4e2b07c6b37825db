package ledger

import (
	"context"
	"errors"
	"fmt"
	"math"
	"sync"
	"time"

	"go.etcd.io/bbolt"

	"github.com/txmgr/txmgr/participant"
	"github.com/txmgr/txmgr/txn"
)

// branchTx is the application's side of one branch. It implements [txn.Resource].
type branchTx struct {
	store     *store
	xid       string
	startMark startMark

	mu       sync.Mutex // guards all below
	over     bool       // Prepare, Commit or Rollback was called: no more work
	prepared bool       // Prepare wrote something, or may have
	seen     map[string]account
	changes  map[string]change
}

func newBranchTx(s *store, xid string) *branchTx {
	return &branchTx{store: s, xid: xid, seen: map[string]account{}, changes: map[string]change{}}
}

// do runs one statement and returns what it reads.
func (s *branchTx) do(ctx context.Context, st statement) (int64, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.over {
		return 0, fmt.Errorf("%s: %w", st.verb, txn.ErrNotActive)
	}
	switch st.verb {
	case "get":
		return s.getLocked(ctx, st.accounts[0])
	case "set":
		return 0, s.changeLocked(st.accounts[0], change{set: true, amount: st.amount})
	case "add":
		return 0, s.changeLocked(st.accounts[0], change{amount: st.amount})
	}
	if err := s.changeLocked(st.accounts[0], change{amount: -st.amount}); err != nil {
		return 0, err
	}
	return 0, s.changeLocked(st.accounts[1], change{amount: st.amount})
}

// getLocked reads an account as this branch sees it: as it was when first read, with the
// branch's own changes.
func (s *branchTx) getLocked(ctx context.Context, name string) (int64, error) {
	c := s.changes[name]
	if c.set {
		return c.amount, nil
	}
	a, known := s.seen[name]
	if !known {
		if len(s.seen) == maxAccounts {
			return 0, tooMany()
		}
		err := s.store.view(ctx, func(tx *bbolt.Tx) (err error) {
			a, err = loadAccount(tx, name)
			return err
		})
		if err != nil {
			return 0, err
		}
		s.seen[name] = a
	}
	sum, ok := plus(a.balance, c.amount)
	if !ok {
		return 0, outOfRange(name)
	}
	return sum, nil
}

func (s *branchTx) changeLocked(name string, c change) error {
	before, known := s.changes[name]
	if !known && len(s.changes) == maxAccounts {
		return tooMany()
	}
	if !c.set {
		sum, ok := plus(before.amount, c.amount)
		if !ok {
			return outOfRange(name)
		}
		c = change{set: before.set, amount: sum}
	}
	s.changes[name] = c
	return nil
}

func plus(a, b int64) (int64, bool) {
	if b > 0 && a > math.MaxInt64-b || b < 0 && a < math.MinInt64-b {
		return 0, false
	}
	return a + b, true
}

func outOfRange(name string) error {
	return fmt.Errorf("%w: account %s: sum is out of range", txn.ErrInvalid, name)
}

func tooMany() error {
	return fmt.Errorf("%w: more than %d accounts in one transaction", txn.ErrInvalid, maxAccounts)
}

func (s *branchTx) workLocked() work {
	w := work{reads: map[string]uint64{}, changes: s.changes}
	for name, a := range s.seen {
		w.reads[name] = a.version
	}
	return w
}

// Prepare implements [txn.Resource].
func (s *branchTx) Prepare(ctx context.Context) (txn.Vote, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.over = true
	w, vote := s.workLocked(), txn.VotePrepared
	var err error
	if len(w.changes) == 0 {
		vote = txn.VoteReadOnly
		err = s.store.view(ctx, func(tx *bbolt.Tx) error { return check(tx, w) })
	} else {
		s.prepared = true
		err = s.store.update(ctx, func(tx *bbolt.Tx) error { return prepare(tx, s.xid, w, time.Now()) })
	}
	switch {
	case errors.As(err, new(rejection)):
		s.prepared = false
		return txn.VoteNo, err
	case err != nil:
		return 0, err
	}
	return vote, nil
}

// Commit implements [txn.Resource].
func (s *branchTx) Commit(ctx context.Context) error {
	return s.finish(ctx, commit, participant.Committed)
}

// Rollback implements [txn.Resource]. Work that was not prepared exists only in this value.
func (s *branchTx) Rollback(ctx context.Context) error {
	s.mu.Lock()
	s.over = true
	prepared := s.prepared
	s.mu.Unlock()
	if !prepared {
		return nil
	}
	return s.finish(ctx, rollback, participant.RolledBack)
}

func (s *branchTx) finish(ctx context.Context, how finishFunc, want participant.BranchOutcome) error {
	outcome, err := s.store.finish(ctx, s.xid, how)
	if err == nil && outcome == participant.Committed && outcome != want {
		return fmt.Errorf("%w: branch %s was committed by another session", txn.ErrEndedByApplication, s.xid)
	}
	if err == nil && outcome != want {
		return fmt.Errorf("branch %s ended as %v", s.xid, outcome)
	}
	return err
}

// Release implements [txn.Resource]. A branch holds nothing.
func (*branchTx) Release() {}

// finishFunc is commit or rollback.
type finishFunc func(tx *bbolt.Tx, xid string, now time.Time) (participant.BranchOutcome, error)

func (s *store) finish(ctx context.Context, xid string, how finishFunc) (outcome participant.BranchOutcome, err error) {
	err = s.update(ctx, func(tx *bbolt.Tx) (err error) {
		outcome, err = how(tx, xid, time.Now())
		return err
	})
	if err != nil {
		return 0, err
	}
	return outcome, nil
}
