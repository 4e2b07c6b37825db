package node

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/txmgr/txmgr/recovery"
	"github.com/txmgr/txmgr/txn"
)

// TestMemory: outcomes within the reported retention are remembered, also when outcomes are dropped
// early.
func TestMemory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := open(t, t.TempDir(), slow, func(c *Config) { c.Retention, c.Retain = time.Minute, 5 })
		memory := func() time.Duration {
			t.Helper()
			known, err := n.recoveryLog().Lookup(t.Context(), []recovery.Key{{TX: txn.ID{1}, Branch: 1}})
			if err != nil || known[0].State != 0 {
				t.Fatalf("%+v, %v", known, err)
			}
			return known[0].RetentionHorizon
		}
		if got := memory(); got != time.Minute-100*time.Millisecond {
			t.Errorf("at first: %v", got)
		}
		type outcome struct {
			id txn.ID
			at time.Time
		}
		var outcomes []outcome
		least := time.Minute
		for i := range 40 {
			pass(time.Duration(i%7) * 450 * time.Millisecond)
			id := begin(t, n, time.Minute).ID
			if _, err := n.Commit(t.Context(), id, txn.CommitRequest{}); err != nil {
				t.Fatal(err)
			}
			outcomes = append(outcomes, outcome{id, time.Now()})
			got, forgotten := memory(), 0
			for _, o := range outcomes {
				if _, err := n.Get(t.Context(), o.id); err == nil {
					continue
				} else if !errors.Is(err, txn.ErrNotFound) {
					t.Fatal(err)
				}
				forgotten++
				if age := time.Since(o.at); age < got {
					t.Errorf("an outcome is forgotten after %v, and %v are said to be remembered", age, got)
				}
			}
			if got <= 0 || i > 6 && (forgotten < i-6 || got > 15*time.Second) {
				t.Errorf("outcome %d: %v are said to be remembered, %d are forgotten", i, got, forgotten)
			}
			least = min(least, got)
		}
		pass(10 * time.Minute)
		begin(t, n, time.Hour) // and so forget
		if got := memory(); got != time.Minute-100*time.Millisecond {
			t.Errorf("at last %v; at least %v", got, least)
		}
	})
}
