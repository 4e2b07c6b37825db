package txntest_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/txmgr/txmgr/txn"
	"github.com/txmgr/txmgr/txn/txntest"
)

// TestApplicationGoesSilent: its work is rolled back an hour before the deadline, and the error
// says why.
func TestApplicationGoesSilent(t *testing.T) {
	withShop(t, func(t *testing.T, h *shopFixture) {
		const ttl = 4 * time.Second
		s, err := h.OpenSession(t.Context(), txn.SessionOptions{Name: "shop", TTL: ttl})
		is(t, err)
		var heard time.Time
		err = txn.Run(t.Context(), h.Manager, txn.Options{Timeout: time.Hour, Session: s.ID}, func(ctx context.Context, tx *txn.Tx) error {
			is(t, h.pay(ctx, tx))
			for range 5 {
				<-time.After(ttl * 9 / 10)
				_, err := h.KeepAlive(ctx, s.ID)
				is(t, err)
				heard = time.Now()
			}
			<-time.After(ttl)
			if got := h.bank.State(tx.ID()); got != txn.BranchEnlisted {
				t.Errorf("%v after the last sign of life, bank is %v", ttl, got)
			}
			info, err := h.Wait(ctx, tx.ID(), txn.UntilFinished)
			is(t, err)
			if took := time.Since(heard); info.Cause != txn.CauseSessionExpired || info.Session != s.ID || took > ttl*9/8 {
				t.Errorf("%v by %v after %v of silence", info.State, info.Cause, took)
			}
			return nil
		})
		is(t, err, txn.ErrRolledBack, txn.ErrSessionExpired)
		h.ends(t, txn.RolledBack, "exec, coordinator: rollback, rollback")
		_, err = h.KeepAlive(t.Context(), s.ID)
		is(t, err, txn.ErrNotFound, txn.ErrSessionExpired)
	})
}

// TestNeverEarly: whatever the phase of the belt.
func TestNeverEarly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := txntest.New(t)
		for _, ttl := range []time.Duration{time.Second, 16 * time.Second, 4096 * time.Second} {
			_, err := m.OpenSession(t.Context(), txn.SessionOptions{TTL: min(ttl, txn.MaxSessionTTL)})
			is(t, err)
			for range 20 {
				<-time.After(ttl * 7 / 50)
				s, err := m.OpenSession(t.Context(), txn.SessionOptions{TTL: min(ttl, txn.MaxSessionTTL)})
				is(t, err)
				b, err := m.Begin(t.Context(), txn.Options{Timeout: 24 * time.Hour, Session: s.ID})
				is(t, err)
				opened := time.Now()
				info, err := m.Wait(t.Context(), b.ID, txn.UntilFinished)
				is(t, err)
				if took := time.Since(opened); info.Cause != txn.CauseSessionExpired || took < ttl || took > ttl*9/8 {
					t.Errorf("TTL %v: %v by %v after %v", ttl, info.State, info.Cause, took)
				}
			}
		}
	})
}

// TestLostSignsOfLife: a keep-alive that does not arrive does not renew the session, and one
// whose answer is lost does.
func TestLostSignsOfLife(t *testing.T) {
	for fault, lives := range map[txntest.Fault]bool{txntest.Unreachable: false, txntest.ResponseLost: true} {
		withShop(t, func(t *testing.T, h *shopFixture) {
			s, err := h.OpenSession(t.Context(), txn.SessionOptions{TTL: time.Second})
			is(t, err)
			b, err := h.Begin(t.Context(), txn.Options{Session: s.ID})
			is(t, err)
			h.Fail("keep alive", fault)
			<-time.After(900 * time.Millisecond)
			_, err = h.KeepAlive(t.Context(), s.ID)
			is(t, err, txn.ErrUnavailable)
			<-time.After(900 * time.Millisecond)
			info, err := h.Get(t.Context(), b.ID)
			is(t, err)
			if lives != (info.State == txn.Active) {
				t.Errorf("fault %v: %v by %v", fault, info.State, info.Cause)
			}
		})
	}
}
