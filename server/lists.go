package server

import (
	"fmt"

	"github.com/txmgr/txmgr/api/wire"
	"github.com/txmgr/txmgr/txn"
)

// maxListed is how many transactions may be in all lists together that are being made
// or sent. Each takes about 2.5 KiB until its list has left, so that a few of the
// largest at once would take more than all the rest.
const maxListed = 200_000

// A list has shortList transactions when its caller sets no limit, and never more than
// longestList.
const (
	shortList   = 1000
	longestList = 100_000
)

// reserve makes room for a list, until the call is over.
func (s *Server) reserve(x *exchange, limit int) error {
	if limit == 0 {
		limit = shortList
	}
	n := int64(min(limit, longestList))
	if s.listed.Add(n) > maxListed {
		s.listed.Add(-n)
		return &wire.RetryAfterError{After: retryAfter, Err: fmt.Errorf("%w: the lists that are being made may have %d transactions together: ask for a shorter one, or later", txn.ErrUnavailable, maxListed)}
	}
	x.listed = n
	return nil
}

// keep gives back all of the room but that for n.
func (s *Server) keep(x *exchange, n int) {
	s.listed.Add(int64(n) - x.listed)
	x.listed = int64(n)
}
