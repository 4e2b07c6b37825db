package ledger

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"go.etcd.io/bbolt"

	"github.com/txmgr/txmgr/txn"
)

// Ledger is the application's side of a ledger: the work of global transactions, and reads.
// Safe for concurrent use, also within one transaction. Errors of bad arguments are
// [txn.ErrInvalid].
type Ledger struct {
	name  string
	store *store
}

// New returns the ledger in the file at path, which is created when first used. name is the
// participant's name at the coordinator.
func New(name, path string) *Ledger {
	return &Ledger{name: name, store: newStore(path)}
}

// Add adds to an account; a negative amount takes away.
func (l *Ledger) Add(ctx context.Context, tx *txn.Tx, account string, amount int64) error {
	_, err := l.run(ctx, tx, statement{"add", []string{account}, amount})
	return err
}

// Set sets the balance of an account.
func (l *Ledger) Set(ctx context.Context, tx *txn.Tx, account string, balance int64) error {
	_, err := l.run(ctx, tx, statement{"set", []string{account}, balance})
	return err
}

// Move takes an amount from an account and adds it to another.
func (l *Ledger) Move(ctx context.Context, tx *txn.Tx, from, to string, amount int64) error {
	_, err := l.run(ctx, tx, statement{"move", []string{from, to}, amount})
	return err
}

// Get reads the balance of an account, with what the transaction has changed. The branch votes
// no when another transaction changes the account after that.
func (l *Ledger) Get(ctx context.Context, tx *txn.Tx, account string) (int64, error) {
	return l.run(ctx, tx, statement{"get", []string{account}, 0})
}

func (l *Ledger) run(ctx context.Context, tx *txn.Tx, st statement) (int64, error) {
	if err := st.check(); err != nil {
		return 0, fmt.Errorf("%w: %s: %w", txn.ErrInvalid, st.verb, err)
	}
	s, err := l.branchTx(ctx, tx)
	if err != nil {
		return 0, err
	}
	n, err := s.do(ctx, st)
	return n, l.wrapErr(err)
}

// Exec runs statements, separated by ';' or line ends:
//
//	add ACCOUNT AMOUNT
//	set ACCOUNT AMOUNT
//	move FROM TO AMOUNT
//	get ACCOUNT
//
// The answer has a line "ACCOUNT BALANCE" for each get.
func (l *Ledger) Exec(ctx context.Context, tx *txn.Tx, statements string) (string, error) {
	all, err := parse(statements)
	if err != nil {
		return "", err
	}
	s, err := l.branchTx(ctx, tx)
	if err != nil {
		return "", err
	}
	answer, err := s.doAll(ctx, all)
	return answer, l.wrapErr(err)
}

// wrapErr names the participant in an error of work, for applications that work in several.
func (l *Ledger) wrapErr(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s: %w", l.name, err)
}

// Local runs statements in a transaction of the ledger alone, without a coordinator: to fill
// the first accounts, for example. It fails when an account is locked by a prepared branch.
func (l *Ledger) Local(ctx context.Context, statements string) (string, error) {
	all, err := parse(statements)
	if err != nil {
		return "", err
	}
	s := newBranchTx(l.store, "")
	answer, err := s.doAll(ctx, all)
	if err != nil {
		return "", err
	}
	w := s.workLocked() // nothing else has this branch
	do := func(tx *bbolt.Tx) error {
		if err := check(tx, w); err != nil {
			return err
		}
		return apply(tx, w.changes)
	}
	if len(w.changes) == 0 {
		return answer, l.store.view(ctx, do)
	}
	return answer, l.store.update(ctx, do)
}

func (s *branchTx) doAll(ctx context.Context, all []statement) (string, error) {
	var answer strings.Builder
	for _, st := range all {
		balance, err := s.do(ctx, st)
		if err != nil {
			return "", err
		}
		if st.verb == "get" {
			answer.WriteString(st.accounts[0] + " " + strconv.FormatInt(balance, 10) + "\n")
		}
	}
	return answer.String(), nil
}

func (l *Ledger) branchTx(ctx context.Context, tx *txn.Tx) (*branchTx, error) {
	return txn.Join(ctx, tx, l.name, func(ctx context.Context, enlist txn.EnlistFunc) (*branchTx, error) {
		return enlistBranch(ctx, l.store, enlist)
	})
}

// enlistBranch enlists a branch, with what later proves how it ended.
func enlistBranch(ctx context.Context, st *store, enlist txn.EnlistFunc) (*branchTx, error) {
	at, err := st.startMark(ctx)
	if err != nil {
		return nil, err
	}
	b, err := enlist(ctx, at.String(), nil)
	if err != nil {
		return nil, err
	}
	s := newBranchTx(st, b.XID)
	s.startMark = at
	return s, nil
}

// Balances returns the committed balance of every account.
func (l *Ledger) Balances(ctx context.Context) (map[string]int64, error) {
	all := map[string]int64{}
	err := l.store.view(ctx, func(tx *bbolt.Tx) error {
		return each(tx, bucketAccounts, decodeAccount, func(name string, a account) error {
			all[name] = a.balance
			return nil
		})
	})
	return all, err
}

// Total returns the sum of all committed balances.
func (l *Ledger) Total(ctx context.Context) (int64, error) {
	all, err := l.Balances(ctx)
	sum := int64(0)
	for name, balance := range all {
		var ok bool
		if sum, ok = plus(sum, balance); !ok {
			return 0, outOfRange(name)
		}
	}
	return sum, err
}

// Prepared is a branch that is prepared and waits for the decision.
type Prepared struct {
	XID      string
	Since    time.Time
	Accounts []string // that it has locked, in order
}

// Prepared returns the prepared branches, of every cluster, in the order of their XIDs.
func (l *Ledger) Prepared(ctx context.Context) ([]Prepared, error) { return l.store.prepared(ctx) }

func (s *store) prepared(ctx context.Context) (all []Prepared, err error) {
	err = s.view(ctx, func(tx *bbolt.Tx) error {
		all = nil
		return each(tx, bucketPrepared, decodeBranch, func(xid string, br branch) error {
			all = append(all, Prepared{XID: xid, Since: br.since, Accounts: br.accounts()})
			return nil
		})
	})
	return all, err
}
