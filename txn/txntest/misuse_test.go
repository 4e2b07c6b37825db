package txntest_test

import (
	"context"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/txmgr/txmgr/txn"
	"github.com/txmgr/txmgr/txn/admin"
	"github.com/txmgr/txmgr/txn/txntest"
)

// spyTB is a test whose failure is recorded.
type spyTB struct {
	testing.TB
	fatal string
}

func (s *spyTB) Fatalf(format string, args ...any) {
	s.fatal = fmt.Sprintf(format, args...)
	runtime.Goexit()
}

// TestMisuseFailsTheTest, and says what is wrong.
func TestMisuseFailsTheTest(t *testing.T) {
	for name, c := range map[string]struct {
		use  func(m *txntest.Manager)
		want string
	}{
		"no such call":             {func(m *txntest.Manager) { m.Fail("comit", txntest.Hang) }, `no call "comit": want one of begin, `},
		"no such call of one":      {func(m *txntest.Manager) { m.Database("bank").Fail("begin", txntest.Hang) }, `bank: no call "begin": want one of exec, `},
		"no such fault":            {func(m *txntest.Manager) { m.Fail("commit", 0) }, "no fault 0"},
		"no such name":             {func(m *txntest.Manager) { m.Database("Bank") }, `participant name "Bank"`},
		"a resource twice":         {func(m *txntest.Manager) { m.Database("bank"); m.Database("bank") }, `"bank" is there already`},
		"a resource and a service": {func(m *txntest.Manager) { m.Database("bank"); m.Service("bank", nil) }, `"bank" is there already`},
		"an unknown transaction":   {func(m *txntest.Manager) { m.Outcome(txn.NewID(time.UnixMilli(1), [9]byte{1})) }, "unknown transaction"},
	} {
		t.Run(name, func(t *testing.T) {
			s := &spyTB{TB: t}
			m := txntest.New(s)
			over := make(chan struct{})
			go func() {
				defer close(over)
				c.use(m)
			}()
			if <-over; !strings.Contains(s.fatal, c.want) {
				t.Errorf("%q does not say %q", s.fatal, c.want)
			}
		})
	}
}

// TestBranchThatStaysUnfinished is named when Outcome waits for it in vain.
func TestBranchThatStaysUnfinished(t *testing.T) {
	withShop(t, func(t *testing.T, _ *shopFixture) {
		s, began := &spyTB{TB: t}, time.Now()
		m, over := txntest.New(s), make(chan struct{})
		b, err := m.Begin(t.Context(), txn.Options{Timeout: 3 * time.Second, Branches: []txn.Enlistment{{Participant: "own"}}})
		is(t, err)
		go func() {
			defer close(over)
			m.Outcome(b.ID)
		}()
		if <-over; !strings.Contains(s.fatal, "still rolling-back, with the branches [b1 at own]") || time.Since(began) != time.Minute+3*time.Second {
			t.Errorf("%q after %v", s.fatal, time.Since(began))
		}
		is(t, m.ReportCompletion(t.Context(), b.ID, txn.CompletionReport{Branch: 1, State: txn.BranchRolledBack}))
		if got := m.Outcome(b.ID); got.State != txn.RolledBack {
			t.Errorf("%+v", got)
		}
	})
}

// TestAfterTheTest every call is refused.
func TestAfterTheTest(t *testing.T) {
	var m *txntest.Manager
	t.Run("a test", func(t *testing.T) { m = txntest.New(t) })
	_, err := m.Begin(context.Background(), txn.Options{})
	is(t, err, txn.ErrUnavailable)
	_, err = m.Get(context.Background(), txn.NewID(time.UnixMilli(1), [9]byte{1}))
	is(t, err, txn.ErrUnavailable)
	_, err = m.OpenSession(context.Background(), txn.SessionOptions{})
	is(t, err, txn.ErrUnavailable)
	_, err = m.KeepAlive(context.Background(), session(1))
	is(t, err, txn.ErrUnavailable)
	is(t, m.CloseSession(context.Background(), session(1)), txn.ErrUnavailable)
	_, err = m.Sessions(context.Background(), admin.SessionFilter{})
	is(t, err, txn.ErrUnavailable)
}
