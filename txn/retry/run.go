package retry

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/cenkalti/backoff/v5"

	"github.com/txmgr/txmgr/txn"
)

// Policy says how often and how soon. The zero value is usable.
type Policy struct {
	// Attempts bounds how often the function runs, the first time included. Defaults to 5.
	Attempts uint
	// Wait is the mean of the wait after the first attempt. It doubles with each, up to MaxWait; the
	// wait is drawn anew each time, between nothing and twice the mean, so that those who were in each
	// other's way do not meet again. Defaults to 10ms and 1s.
	Wait, MaxWait time.Duration
	// Also reports further errors that pass, for example of the application's own services. It is
	// asked only if surely nothing was applied.
	Also func(error) bool
}

// Run runs fn in a new transaction, as [txn.Run] does, and again while its error is [Retryable] and the
// policy and ctx allow it. The error is that of the last attempt. Without a coordinator each attempt lasts as
// long as the client waits for one.
//
// If ctx carries a transaction of the same manager already, fn runs in that one, and once: only who
// began a transaction can repeat it. [txn.Options.ID] must be zero, since an id is that of one
// transaction.
func Run(ctx context.Context, m txn.Manager, o txn.Options, p Policy, fn func(ctx context.Context, tx *txn.Tx) error) error {
	if o.ID != (txn.ID{}) {
		return txn.Wrap("begin", o.ID, fmt.Errorf("%w: an id is that of one transaction, and each attempt is another: leave the id out", txn.ErrInvalid))
	}
	outer, _ := txn.FromContext(ctx)
	joined, began := false, false
	work := func(ctx context.Context, tx *txn.Tx) error {
		joined, began = tx == outer, true
		return fn(ctx, tx)
	}
	attempts, last := uint(0), error(nil)
	attempt := func() (none struct{}, err error) {
		attempts++
		began = false
		last = txn.Run(ctx, m, o, work)
		switch {
		case last == nil:
			return none, nil
		case joined || began && !errors.Is(last, txn.ErrRolledBack) || !p.repeats(last):
			return none, backoff.Permanent(errAgain)
		}
		return none, errAgain // not the error itself, which may hold instructions for the library
	}
	// Its own error may be that of ctx, which says less.
	_, _ = backoff.Retry(ctx, attempt, backoff.WithBackOff(p.waits()), backoff.WithMaxTries(cmp.Or(p.Attempts, 5)), backoff.WithMaxElapsedTime(0))
	if last != nil && attempts > 1 {
		return fmt.Errorf("attempt %d: %w", attempts, last)
	}
	return last
}

// errAgain stands for the error of an attempt.
var errAgain = errors.New("again")

func (p Policy) repeats(err error) bool {
	return Retryable(err) || p.Also != nil && safe(err) && p.Also(err)
}

func (p Policy) waits() backoff.BackOff {
	return &backoff.ExponentialBackOff{
		InitialInterval:     cmp.Or(p.Wait, 10*time.Millisecond),
		RandomizationFactor: 1,
		Multiplier:          2,
		MaxInterval:         cmp.Or(p.MaxWait, time.Second),
	}
}
