package txntest_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/txmgr/txmgr/txn"
	"github.com/txmgr/txmgr/txn/txntest"
)

// TestCauseIsTheRecordedOne: an error has the cause that the coordinator has recorded, or none;
// and a deadline that has passed is [txn.ErrTimedOut], also that of the caller's context.
func TestCauseIsTheRecordedOne(t *testing.T) {
	var m *txntest.Manager
	var bank, stock *txntest.Database
	both := func(ctx context.Context, tx *txn.Tx) error {
		return errors.Join(bank.Exec(ctx, tx, func() {}), stock.Exec(ctx, tx, func() {}))
	}
	for name, c := range map[string]struct {
		deadline time.Duration // of the caller's context
		options  txn.Options
		work     func(ctx context.Context, tx *txn.Tx) error
		want     txn.Cause
	}{
		"a vote is no": {work: func(ctx context.Context, tx *txn.Tx) error {
			stock.VoteNo("sold out")
			return both(ctx, tx)
		}, want: txn.CauseVoteNo},
		"a single branch ends in a rollback": {work: func(ctx context.Context, tx *txn.Tx) error {
			stock.VoteNo("sold out")
			return stock.Exec(ctx, tx, func() {})
		}, want: txn.CauseVoteNo},
		"a prepare is lost": {work: func(ctx context.Context, tx *txn.Tx) error {
			stock.Fail("prepare", txntest.Unreachable)
			return both(ctx, tx)
		}, want: txn.CauseClient},
		"the function fails": {work: func(ctx context.Context, tx *txn.Tx) error {
			return errors.Join(both(ctx, tx), errors.New("no"))
		}, want: txn.CauseClient},
		"the transaction's time is over": {options: txn.Options{Timeout: time.Second}, work: func(ctx context.Context, tx *txn.Tx) error {
			err := both(ctx, tx)
			<-ctx.Done()
			return err
		}, want: txn.CauseTimeout},
		"the caller's time is over": {deadline: 1030 * time.Millisecond, work: func(ctx context.Context, tx *txn.Tx) error {
			err := both(ctx, tx)
			<-ctx.Done()
			return errors.Join(err, ctx.Err())
		}, want: txn.CauseTimeout},
		"the caller's time is over in a statement": {deadline: 1030 * time.Millisecond, work: func(ctx context.Context, tx *txn.Tx) error {
			stock.Fail("exec", txntest.Hang)
			return both(ctx, tx)
		}, want: txn.CauseTimeout},
		"the caller's time is over in a prepare": {deadline: 1030 * time.Millisecond, work: func(ctx context.Context, tx *txn.Tx) error {
			stock.Fail("prepare", txntest.Hang)
			return both(ctx, tx)
		}, want: txn.CauseTimeout},
		"the caller's time is over, and the transaction was given more": {deadline: 1030 * time.Millisecond, work: func(ctx context.Context, tx *txn.Tx) error {
			if err := tx.Extend(ctx, time.Minute); err != nil {
				return err
			}
			<-ctx.Done()
			return ctx.Err()
		}, want: txn.CauseClient},
		"the session expires": {work: func(ctx context.Context, tx *txn.Tx) error {
			err := both(ctx, tx)
			<-time.After(10 * time.Second) // no keep-alive arrives
			return err
		}, want: txn.CauseSessionExpired},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m = txntest.New(t)
				bank, stock = m.Database("bank"), m.Database("stock")
				ctx := t.Context()
				if c.want == txn.CauseSessionExpired {
					s, err := m.OpenSession(ctx, txn.SessionOptions{TTL: 2 * time.Second})
					if err != nil {
						t.Fatal(err)
					}
					c.options.Session = s.ID
				}
				if c.deadline > 0 {
					var cancel context.CancelFunc
					ctx, cancel = context.WithTimeout(ctx, c.deadline)
					defer cancel()
				}
				err := txn.Run(ctx, distant{m}, c.options, c.work)
				var e *txn.Error
				if !errors.Is(err, txn.ErrRolledBack) || !errors.As(err, &e) || e.Cause != c.want {
					t.Errorf("the error is %q, with the cause %v; want %v", err, e.Cause, c.want)
				}
				for sentinel, cause := range map[error]txn.Cause{txn.ErrTimedOut: txn.CauseTimeout, txn.ErrVotedNo: txn.CauseVoteNo, txn.ErrSessionExpired: txn.CauseSessionExpired} {
					if errors.Is(err, sentinel) != (c.want == cause) {
						t.Errorf("%q is %q: %v", err, sentinel, errors.Is(err, sentinel))
					}
				}
				<-time.After(2 * time.Second)
				if o := m.Outcome(e.ID); o.State != txn.RolledBack || o.Cause != c.want {
					t.Errorf("the coordinator has recorded %v, cause %v; want cause %v", o.State, o.Cause, c.want)
				}
			})
		})
	}
}

// distant is a coordinator whose answer to a begin takes a while: the application counts the
// timeout from then on.
type distant struct{ *txntest.Manager }

func (d distant) Begin(ctx context.Context, o txn.Options) (txn.BeginResult, error) {
	b, err := d.Manager.Begin(ctx, o)
	<-time.After(50 * time.Millisecond)
	return b, err
}
