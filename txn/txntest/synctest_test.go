package txntest_test

import (
	"context"
	"errors"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/txmgr/txmgr/txn"
	"github.com/txmgr/txmgr/txn/txntest"
)

func TestOrderTimesOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := txntest.New(t)
		bank, stock := m.Database("bank"), m.Database("stock")
		stock.Fail("exec", txntest.Hang) // a lock that is never released

		balance, began := 100, time.Now()
		err := txn.Run(t.Context(), m, txn.Options{Timeout: 3 * time.Second}, func(ctx context.Context, tx *txn.Tx) error {
			if err := bank.Exec(ctx, tx, func() { balance -= 10 }); err != nil {
				return err
			}
			return stock.Exec(ctx, tx, func() { t.Error("the item is gone") })
		})
		if !errors.Is(err, txn.ErrTimedOut) || time.Since(began) != 3*time.Second {
			t.Errorf("%v after %v", err, time.Since(began))
		}

		id := m.Transactions()[0].ID
		if m.Outcome(id).State != txn.RolledBack || bank.State(id) != txn.BranchRolledBack || balance != 100 {
			t.Errorf("bank is %v with a balance of %d", bank.State(id), balance)
		}
	})
}

// TestThePackageCommentShowsThisTest: the package documentation shows the test above, letter by
// letter.
func TestThePackageCommentShowsThisTest(t *testing.T) {
	const head = "func TestOrderTimesOut("
	shown := func(file, prefix string) string {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		var lines []string
		for line := range strings.Lines(string(data)) {
			line = strings.TrimPrefix(strings.TrimSuffix(line, "\n"), prefix)
			if line == strings.TrimSuffix(prefix, "\t") {
				line = ""
			}
			if len(lines) == 0 && !strings.HasPrefix(line, head) {
				continue
			}
			if lines = append(lines, line); line == "}" {
				return strings.Join(lines, "\n")
			}
		}
		t.Fatalf("%s has no %s", file, head)
		return ""
	}
	if doc, test := shown("doc.go", "//\t"), shown("synctest_test.go", ""); doc != test {
		t.Errorf("the package comment shows\n%s\nand the test is\n%s", doc, test)
	}
}

// TestTimeoutIsOnTime: whatever the phase of the tick, and with or without calls in between.
func TestTimeoutIsOnTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := txntest.New(t)
		for _, timeout := range []time.Duration{txntest.Interval, 101 * time.Millisecond, time.Second, 10 * time.Minute, 24 * time.Hour} {
			<-time.After(37 * time.Millisecond)
			began := time.Now()
			b, err := m.Begin(t.Context(), txn.Options{Timeout: timeout})
			if err != nil {
				t.Fatal(err)
			}
			<-time.After(timeout)
			if info, err := m.Get(t.Context(), b.ID); err != nil || info.State.Decided() && time.Since(began) < timeout {
				t.Errorf("%v: %v, %v after %v", timeout, info.State, err, time.Since(began))
			}
			info, err := m.Wait(t.Context(), b.ID, txn.UntilFinished)
			if took := time.Since(began); err != nil || info.Cause != txn.CauseTimeout || took < timeout || took >= timeout+txntest.Interval {
				t.Errorf("a timeout of %v: %v by %v after %v, %v", timeout, info.State, info.Cause, took, err)
			}
		}
		if left := m.Unfinished(); len(left) != 0 {
			t.Errorf("left undone: %+v", left)
		}
	})
}

// TestExtendInABubble: the context of the work moves with the deadline.
func TestExtendInABubble(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, began := txntest.New(t), time.Now()
		bank := m.Database("bank")
		err := txn.Run(t.Context(), m, txn.Options{Timeout: time.Second}, func(ctx context.Context, tx *txn.Tx) error {
			<-time.After(900 * time.Millisecond)
			if err := tx.Extend(ctx, time.Minute); err != nil {
				return err
			}
			<-time.After(50 * time.Second)
			return bank.Exec(ctx, tx, func() {})
		})
		if err != nil || time.Since(began) != 50*time.Second+900*time.Millisecond {
			t.Errorf("%v after %v", err, time.Since(began))
		}
	})
}

// TestNothingOpenHasNoTimer: otherwise time would pass for ever in a bubble whose goroutines
// all wait for nothing, instead of the bubble reporting it.
func TestNothingOpenHasNoTimer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := txntest.New(t)
		if err := txn.Run(t.Context(), m, txn.Options{}, func(context.Context, *txn.Tx) error { return nil }); err != nil {
			t.Fatal(err)
		}
		if m.Armed() {
			t.Error("nothing is open, and a timer is set")
		}
		b, err := m.Begin(t.Context(), txn.Options{})
		if err != nil || !m.Armed() {
			t.Errorf("a transaction is open, and no timer is set: %v", err)
		}
		if _, err := m.Rollback(t.Context(), b.ID, "enough"); err != nil || m.Armed() {
			t.Errorf("nothing is open any more, and a timer is set: %v", err)
		}
		s, err := m.OpenSession(t.Context(), txn.SessionOptions{})
		if err != nil || !m.Armed() {
			t.Errorf("a session is open, and no timer is set: %v", err)
		}
		if err := m.CloseSession(t.Context(), s.ID); err != nil || m.Armed() {
			t.Errorf("no session is open any more, and a timer is set: %v", err)
		}
	})
}
