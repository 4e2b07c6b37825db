package node

import (
	"fmt"
	"time"

	"github.com/txmgr/txmgr/timeout/survival"
	"github.com/txmgr/txmgr/txn"
)

// deadline is the survival index of a timeout, and its expiry tick by the count of the term's
// leader.
type deadline struct {
	term     uint64
	survival uint64
	expiry   survival.Tick
}

// deadline turns a timeout that begins now into the tick of the log at which it expires: the hash of
// its survival index, as the source calls the number of the invocation that ends the transaction
// (docs/timeouts.md).
func (n *Node) deadline(timeout time.Duration) (d deadline, err error) {
	d.term = n.terms.latest.Load() // before the clock is read
	interval := n.clock.Interval()
	if timeout < interval || timeout > n.conf.MaxTimeout {
		return d, fmt.Errorf("%w: timeout %v: want at least one interval of the coordinator, %v, and at most %v", txn.ErrInvalid, timeout, interval, n.conf.MaxTimeout)
	}
	tick, untilNext := n.clock.Now()
	i, err := survival.NewIndex(timeout, untilNext, interval)
	if err != nil {
		return d, fmt.Errorf("%w: %w", txn.ErrInvalid, err)
	}
	d.survival, d.expiry = uint64(i.Survival), i.Hash(tick)
	return d, nil
}
