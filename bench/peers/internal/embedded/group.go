package embedded

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/txmgr/txmgr/txn"
	"github.com/txmgr/txmgr/txn/admin"
)

// group begins many transactions with one deadline.
func (w *worker) group(ctx context.Context, count int, lead time.Duration) (*DeadlineGroup, error) {
	began := time.Now()
	first, at, interval, err := w.calibrate(ctx, lead)
	if err != nil {
		return nil, err
	}
	// Half an interval before the tick: neither the duration of a call nor the rounding moves it
	// into another group.
	deadline := at.Add(-interval / 2)
	if err := w.begin(ctx, count-1, deadline); err != nil {
		return nil, err
	}
	filling := time.Since(began)
	g, err := w.node.Admin().DeadlineGroups(ctx, admin.DeadlineGroupRange{})
	if err != nil {
		return nil, err
	}
	members := 0
	for _, one := range g.Groups {
		if one.ExpiryTick == first.ExpiryTick {
			members = one.Transactions
		}
	}
	if members < count*99/100 {
		return nil, fmt.Errorf("%w: %d of %d transactions are in the group of tick %d", errTooBusy, members, count, first.ExpiryTick)
	}
	out, err := w.watch(ctx, first.ID, members, at)
	if err == nil {
		out.Filling = filling
	}
	return out, err
}

// errTooBusy means that the machine was too busy to begin all transactions of one group in time.
var errTooBusy = fmt.Errorf("the machine is too busy to aim")

// calibrate begins one transaction, and returns the time of the tick that ends it.
func (w *worker) calibrate(ctx context.Context, lead time.Duration) (b txn.BeginResult, at time.Time, interval time.Duration, err error) {
	if b, err = w.node.Begin(ctx, txn.Options{Name: "transfer", Timeout: lead}); err != nil {
		return b, at, 0, err
	}
	now := time.Now() // before the call: times measured from here are rather too long
	g, err := w.node.Admin().DeadlineGroups(ctx, admin.DeadlineGroupRange{})
	if err != nil {
		return b, at, 0, err
	}
	for _, one := range g.Groups {
		if one.ExpiryTick == b.ExpiryTick {
			return b, now.Add(time.Duration(one.ExpiresIn)), time.Duration(g.Interval), nil
		}
	}
	return b, at, 0, fmt.Errorf("tick %d has no group", b.ExpiryTick)
}

// begin begins count transactions with 512 callers, all with the same deadline.
func (w *worker) begin(ctx context.Context, count int, deadline time.Time) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var next atomic.Int64
	var wg sync.WaitGroup
	for range 512 {
		wg.Go(func() {
			for ctx.Err() == nil && next.Add(1) <= int64(count) {
				left := time.Until(deadline)
				if left < time.Second {
					cancel(fmt.Errorf("%w: %d of %d had begun a second before their deadline", errTooBusy, next.Load(), count))
					return
				}
				if _, err := w.node.Begin(ctx, txn.Options{Name: "transfer", Timeout: left}); err != nil {
					cancel(err)
				}
			}
		})
	}
	wg.Wait()
	return context.Cause(ctx)
}

// watch reads every half millisecond what has been decided. A reader sees that a transaction is
// timed out as soon as the entry is applied whose tick ends it, and its record says so when one of
// the next entries has moved it.
func (w *worker) watch(ctx context.Context, first txn.ID, members int, at time.Time) (*DeadlineGroup, error) {
	ctx = txn.AllowStale(ctx) // what is applied here is durable, and the reads do not delay the log
	<-time.After(time.Until(at) - 100*time.Millisecond)
	before, err := w.node.Admin().Status(ctx)
	if err != nil {
		return nil, err
	}
	g := &DeadlineGroup{Count: members}
	ticker := time.NewTicker(500 * time.Microsecond)
	defer ticker.Stop()
	for range ticker.C {
		if g.Decided == 0 {
			info, err := w.node.Get(ctx, first)
			if err != nil {
				return nil, err
			}
			if info.State.Decided() {
				g.Decided, g.First = time.Since(at), info.DecidedIndex
			}
		}
		s, err := w.node.Admin().Status(ctx)
		if err != nil {
			return nil, err
		}
		if g.Decided > 0 && s.TimedOut-before.TimedOut >= uint64(members) && s.Completing == 0 {
			g.Moved, g.Last = time.Since(at), s.LogIndex
			return g, nil
		}
		if time.Since(at) > 10*time.Minute {
			return nil, fmt.Errorf("10 minutes after the tick %d of %d are decided and %d are completing", s.TimedOut-before.TimedOut, members, s.Completing)
		}
	}
	return nil, ctx.Err()
}
