package server

import (
	"fmt"

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

// reserveList reserves budget for a list, until the call ends.
func (s *Server) reserveList(x *callState, limit int) error {
	if limit == 0 {
		limit = defaultListLimit
	}
	n := int64(min(limit, maxListLimit))
	if s.listUsed.Add(n) > listBudget {
		s.listUsed.Add(-n)
		return &wire.RetryAfterError{After: retryAfter, Err: fmt.Errorf("%w: the lists that are being made may have %d transactions together: ask for a shorter one, or later", txn.ErrUnavailable, listBudget)}
	}
	x.listReserved = n
	return nil
}

// shrinkList releases the budget that x has reserved, except that for n transactions.
func (s *Server) shrinkList(x *callState, n int) {
	s.listUsed.Add(int64(n) - x.listReserved)
	x.listReserved = int64(n)
}
