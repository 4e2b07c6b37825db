package node

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/txmgr/txmgr/txn"
)

// TestEachCallerHasItsOwnAnswer: callers whose commands share entries of the log get the results
// of their own commands, although half of them are refused.
func TestEachCallerHasItsOwnAnswer(t *testing.T) {
	n := open(t, t.TempDir(), slow)
	const callers = 400
	ids := make([]txn.ID, callers)
	for i := range ids {
		ids[i] = begin(t, n, time.Minute).ID
		if i%2 == 1 {
			if _, err := n.Rollback(t.Context(), ids[i], "odd"); err != nil {
				t.Fatal(err)
			}
		}
	}
	before, entries := n.proposals.Stats().Commands, n.proposals.Stats().Entries
	var wg sync.WaitGroup
	for i, id := range ids {
		wg.Go(func() {
			o, err := n.Commit(t.Context(), id, txn.CommitRequest{})
			switch odd := i%2 == 1; {
			case odd && !errors.Is(err, txn.ErrRolledBack):
				t.Errorf("caller %d, whose transaction was rolled back: %v, %v", i, o.State, err)
			case !odd && (err != nil || o.State != txn.Committed):
				t.Errorf("caller %d: %v, %v", i, o.State, err)
			}
		})
	}
	wg.Wait()
	before, entries = n.proposals.Stats().Commands-before, n.proposals.Stats().Entries-entries
	if before < callers || entries > before/2 {
		t.Errorf("%d commands in %d entries: the callers shared too little to mean anything", before, entries)
	}
}

// A lone caller's command is on its way at once.
func TestLoneCallerHasEntriesOfItsOwn(t *testing.T) {
	n := open(t, t.TempDir())
	ctx := context.Background()
	entries := func() uint64 { return n.proposals.Stats().Entries - n.proposals.Stats().TickEntries }
	before := entries()
	for range 20 {
		x, err := n.Begin(ctx, txn.Options{})
		if err == nil {
			_, err = n.Commit(ctx, x.ID, txn.CommitRequest{})
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if got := entries() - before; got != 40 {
		t.Errorf("%d entries for 40 commands, one after the other", got)
	}
}
