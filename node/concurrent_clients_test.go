package node

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/txmgr/txmgr/internal/random"
	"github.com/txmgr/txmgr/participant/ledger"
	"github.com/txmgr/txmgr/txn"
)

// delayedReports is the coordinator as seen by one client, whose completion reports are delayed.
type delayedReports struct {
	*Node
	until <-chan struct{}
}

func (h delayedReports) ReportCompletion(ctx context.Context, id txn.ID, acks ...txn.CompletionReport) error {
	<-h.until
	return h.Node.ReportCompletion(ctx, id, acks...)
}

// TestOneIDTwice: two processes run the same transaction, such as a retry and its hung original.
// A branch that one of them committed is not reported as rolled back by the other.
func TestOneIDTwice(t *testing.T) {
	n, bank, _ := withLedgers(t)
	other := ledger.New("bank", bankPath(t, n))
	id, release := random.TransactionID(), make(chan struct{})
	var both sync.WaitGroup
	both.Add(2)
	run := func(m txn.Manager, l *ledger.Ledger, before <-chan struct{}) error {
		return txn.Run(t.Context(), m, txn.Options{ID: id, Timeout: time.Second}, func(ctx context.Context, tx *txn.Tx) error {
			err := l.Add(ctx, tx, "a", -10)
			both.Done()
			both.Wait()
			<-before
			return err
		})
	}
	at := make(chan struct{})
	close(at)
	first, committed := make(chan error, 1), make(chan struct{})
	go func() { first <- run(delayedReports{n, release}, bank, at) }()
	go func() {
		defer close(committed)
		for b, err := bank.Balances(context.Background()); err == nil && b["a"] == 100; b, err = bank.Balances(context.Background()) {
			pass(time.Millisecond)
		}
	}()
	second := run(n, other, committed)
	close(release)
	if err := <-first; err != nil {
		t.Errorf("the first: %v", err)
	}
	if errors.Is(second, txn.ErrRolledBack) {
		t.Errorf("the second: %v", second)
	}
	info := finished(t, n, id)
	if b, err := bank.Balances(t.Context()); err != nil || b["a"] != 90 || info.State != txn.Committed || info.Heuristic != 0 {
		t.Errorf("the ledger has %v, %v; the log %v, heuristic %q", b, err, info.State, info.Heuristic)
	}
}

func bankPath(t *testing.T, n *Node) string {
	t.Helper()
	p, ok := n.registration("bank")
	if !ok {
		t.Fatal("no bank")
	}
	return p.Settings["path"]
}
