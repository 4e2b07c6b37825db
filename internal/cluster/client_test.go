package cluster

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/txmgr/txmgr/client"
	"github.com/txmgr/txmgr/internal/rig"
	"github.com/txmgr/txmgr/txn"
)

// transfer moves an amount from one database to the other.
type transfer struct {
	id       txn.ID
	kind     string
	toBank   bool // else to savings
	from, to int  // accounts
	amount   int64
	timeout  time.Duration
	began    time.Time // before its begin
	manual   bool      // within the bank, prepared without the SDK
	outcome  string    // empty: in progress
	detail   string
}

// The kinds of transfers.
const (
	kindPlain    = "plain"
	kindOverdraw = "overdraw" // the account has too little
	kindAbandon  = "abandon"  // it holds its locks until its deadline
)

// The outcomes of transfers, as reported to the clients.
const (
	outcomeOK          = "ok"
	outcomeRolledBack  = "rolled back"
	outcomeInDoubt     = "in doubt"
	outcomeUnavailable = "unavailable" // it has not begun
	outcomeOther       = "other"
)

// transferClients make transfers and record the reported outcomes.
type transferClients struct {
	m         *money
	c         *client.Client
	abandoned *abandonedTxs // receives the abandoned ones

	mu    sync.Mutex // guards all below
	all   []*transfer
	reads int      // that were not stale and were answered
	mark  txn.Mark // for ids that are made from now on; zero until an id without one was refused
}

func newTransferClients(m *money, c *client.Client, dozed *abandonedTxs) *transferClients {
	return &transferClients{m: m, c: c, abandoned: dozed}
}

// work makes one transfer after the other until ctx ends, and completes the last one.
func (t *transferClients) work(ctx context.Context, n int) {
	var working sync.WaitGroup
	for range n {
		working.Go(func() {
			for ctx.Err() == nil {
				tr := t.draw()
				t.attempt(tr)
				rest := 20 * time.Millisecond
				if tr.outcome != outcomeOK {
					rest = 100*time.Millisecond + rand.N(100*time.Millisecond)
				} else if rand.IntN(4) == 0 {
					t.read(tr)
				}
				rig.Sleep(ctx, rest)
			}
		})
	}
	working.Wait()
}

// draw draws a transfer.
func (t *transferClients) draw() *transfer {
	tr := &transfer{
		id: rig.NewID(), kind: kindPlain, toBank: rand.IntN(2) == 0, from: rand.IntN(accounts), to: rand.IntN(accounts),
		amount: 1 + rand.Int64N(20), timeout: 8*time.Second + rand.N(8*time.Second),
	}
	switch n := rand.IntN(100); {
	case n < 5:
		tr.kind = kindOverdraw
		tr.amount += 100 * openingBalance
	case n < 7:
		tr.kind = kindAbandon
		tr.timeout = time.Second + rand.N(2*time.Second)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.all = append(t.all, tr)
	return tr
}

// attempt makes a transfer and records the outcome.
func (t *transferClients) attempt(tr *transfer) {
	outcome, detail := outcomeOther, ""
	err := t.transfer(tr)
	if e := (*txn.Error)(nil); errors.Is(err, txn.ErrForgotten) && errors.As(err, &e) {
		// Nothing was begun: the id has no mark, and a cluster was restored from a backup in the
		// minute before.
		t.mu.Lock()
		t.mark, tr.id = e.Mark, rig.NewID()
		t.mu.Unlock()
		err = t.transfer(tr)
	}
	switch rolledBack, inDoubt := errors.Is(err, txn.ErrRolledBack), errors.Is(err, txn.ErrInDoubt); {
	case err == nil:
		outcome = outcomeOK
	case rolledBack && inDoubt:
	case rolledBack:
		outcome = outcomeRolledBack
	case inDoubt:
		outcome = outcomeInDoubt
	case errors.Is(err, txn.ErrUnavailable):
		outcome = outcomeUnavailable
	}
	if err != nil {
		detail = err.Error()
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	tr.outcome, tr.detail = outcome, detail
}

// transfer makes a transfer, and returns its error.
func (t *transferClients) transfer(tr *transfer) error {
	tr.began = time.Now()
	t.mu.Lock()
	options := txn.Options{ID: tr.id, Mark: t.mark, Name: tr.kind, Timeout: tr.timeout}
	t.mu.Unlock()
	if tr.manual {
		return t.transferManually(tr, options)
	}
	return txn.Run(context.Background(), t.c, options, func(ctx context.Context, tx *txn.Tx) error { return t.move(ctx, tx, tr) })
}

// move is the body of the transaction.
func (t *transferClients) move(ctx context.Context, tx *txn.Tx, tr *transfer) error {
	give, take := t.m.atSavings, t.m.atBank
	if !tr.toBank {
		give, take = take, give
	}
	if err := give(ctx, tx, tr.from, -tr.amount); err != nil {
		return err
	}
	if err := take(ctx, tx, tr.to, tr.amount); err != nil {
		return err
	}
	if tr.kind == kindAbandon {
		return t.abandoned.watch(tr.id, tr.began, tr.began, tr.timeout)
	}
	return nil
}

func (m *money) atBank(ctx context.Context, tx *txn.Tx, account int, delta int64) error {
	_, err := m.pg.Exec(ctx, tx, "UPDATE account SET balance = balance + $1 WHERE id = $2", delta, account)
	if err == nil {
		_, err = m.pg.Exec(ctx, tx, "INSERT INTO journal (tx, account, delta) VALUES ($1, $2, $3)", tx.String(), account, delta)
	}
	return err
}

func (m *money) atSavings(ctx context.Context, tx *txn.Tx, account int, delta int64) error {
	_, err := m.maria.Exec(ctx, tx, "UPDATE account SET balance = balance + ? WHERE id = ?", delta, account)
	if err == nil {
		_, err = m.maria.Exec(ctx, tx, "INSERT INTO journal (tx, account, delta) VALUES (?, ?, ?)", tx.String(), account, delta)
	}
	return err
}

// read reads an acknowledged transfer from a random node. A node that answers a read that is not
// allowed to be stale has to know of the commit.
func (t *transferClients) read(tr *transfer) {
	n := t.m.cluster.nodes[rand.IntN(size)]
	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Second)
	defer cancel()
	info, err := n.m.Get(ctx, tr.id)
	switch {
	case errors.Is(err, txn.ErrNotFound), err == nil && info.State != txn.Committing && info.State != txn.Committed:
		t.m.cluster.t.Errorf("%v was acknowledged as committed; then %s said %v, %v", tr.id, n.Name, info.State, err)
	case err == nil:
		t.mu.Lock()
		defer t.mu.Unlock()
		t.reads++
	}
}

// countOutcomes counts outcomes, of all kinds or of one.
func (t *transferClients) countOutcomes(kind string) map[string]int {
	t.mu.Lock()
	defer t.mu.Unlock()
	n := map[string]int{}
	for _, tr := range t.all {
		if kind == "" || tr.kind == kind {
			n[tr.outcome]++
		}
	}
	return n
}
