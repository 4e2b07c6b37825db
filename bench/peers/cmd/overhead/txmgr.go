package main

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/txmgr/txmgr/participant/mariadb"
	"github.com/txmgr/txmgr/participant/postgres"
	"github.com/txmgr/txmgr/txn"
)

// managed is the same work with txmgr's SDK.
type managed struct {
	m     *timed
	bank  *postgres.DB
	stock *mariadb.DB
}

func newManaged(m manager, p *pools) *managed {
	return &managed{m: &timed{manager: m}, bank: postgres.New(bankName, p.pg), stock: mariadb.New(stockName, p.my)}
}

var transfer = txn.Options{Name: "transfer"}

func (m *managed) pair(ctx context.Context, worker int) error {
	return txn.Run(ctx, m.m, transfer, func(ctx context.Context, tx *txn.Tx) error {
		if _, err := m.bank.Exec(ctx, tx, pgUpdate, 1, worker); err != nil {
			return err
		}
		_, err := m.stock.Exec(ctx, tx, myUpdate, 1, worker)
		return err
	})
}

func (m *managed) onlyPG(ctx context.Context, worker int) error {
	return txn.Run(ctx, m.m, transfer, func(ctx context.Context, tx *txn.Tx) error {
		_, err := m.bank.Exec(ctx, tx, pgUpdate, 1, maxWorkers+worker)
		return err
	})
}

func (m *managed) onlyMy(ctx context.Context, worker int) error {
	return txn.Run(ctx, m.m, transfer, func(ctx context.Context, tx *txn.Tx) error {
		_, err := m.stock.Exec(ctx, tx, myUpdate, 1, maxWorkers+worker)
		return err
	})
}

// timed measures the duration of the calls to the coordinator.
type timed struct {
	manager
	spent [kinds]stopwatch
}

// The calls of an ordinary transaction.
const (
	callBegin = iota
	callEnlist
	callDelegate
	callCommit
	callDone
	kinds
)

var callNames = [kinds]string{"begin", "enlist", "delegate", "commit", "done"}

type stopwatch struct {
	calls atomic.Int64
	time  atomic.Int64 // nanoseconds
}

func (s *stopwatch) since(began time.Time) {
	s.calls.Add(1)
	s.time.Add(int64(time.Since(began)))
}

// Begin implements [txn.Manager].
func (t *timed) Begin(ctx context.Context, o txn.Options) (txn.BeginResult, error) {
	defer t.spent[callBegin].since(time.Now())
	return t.manager.Begin(ctx, o)
}

// Enlist implements [txn.Manager].
func (t *timed) Enlist(ctx context.Context, id txn.ID, e txn.Enlistment) (txn.Branch, error) {
	defer t.spent[callEnlist].since(time.Now())
	return t.manager.Enlist(ctx, id, e)
}

// Delegate implements [txn.Manager].
func (t *timed) Delegate(ctx context.Context, id txn.ID, b txn.BranchID) (txn.Outcome, error) {
	defer t.spent[callDelegate].since(time.Now())
	return t.manager.Delegate(ctx, id, b)
}

// Commit implements [txn.Manager].
func (t *timed) Commit(ctx context.Context, id txn.ID, c txn.CommitRequest) (txn.Outcome, error) {
	defer t.spent[callCommit].since(time.Now())
	return t.manager.Commit(ctx, id, c)
}

// ReportCompletion implements [txn.Manager].
func (t *timed) ReportCompletion(ctx context.Context, id txn.ID, acks ...txn.CompletionReport) error {
	defer t.spent[callDone].since(time.Now())
	return t.manager.ReportCompletion(ctx, id, acks...)
}

// spent is the total time of each kind of call so far.
type spent [kinds]time.Duration

func (t *timed) read() (s spent) {
	for i := range s {
		s[i] = time.Duration(t.spent[i].time.Load())
	}
	return s
}
