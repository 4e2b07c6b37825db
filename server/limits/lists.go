package limits

import (
	"fmt"
	"sync/atomic"

	"github.com/txmgr/txmgr/api/wire"
	"github.com/txmgr/txmgr/txn"
)

// listBudget is how many transactions may be in all lists together that are being built or
// sent. Each takes about 2.5 KiB until its list is sent, so that a few of the largest lists
// at once would take more memory than everything else.
const listBudget = 200_000

// A list has at most defaultListLimit transactions if its caller sets no limit, and never
// more than maxListLimit.
const (
	defaultListLimit = 1000
	maxListLimit     = 100_000
)

// Lists limits the transactions in all lists together. Its zero value is ready for use.
type Lists struct{ used atomic.Int64 }

// Reserve reserves room for a list with this limit; 0 is the default. It returns how many
// transactions it has reserved, or an error with a time after which to retry.
func (l *Lists) Reserve(limit int) (int64, error) {
	if limit == 0 {
		limit = defaultListLimit
	}
	n := int64(min(limit, maxListLimit))
	if l.used.Add(n) > listBudget {
		l.used.Add(-n)
		return 0, &wire.RetryAfterError{After: RetryAfter, Err: fmt.Errorf("%w: the lists that are being made may have %d transactions together: ask for a shorter one, or later", txn.ErrUnavailable, listBudget)}
	}
	return n, nil
}

// Release gives n reserved transactions back.
func (l *Lists) Release(n int64) { l.used.Add(-n) }
