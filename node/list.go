package node

import (
	"context"
	"slices"
	"time"

	"github.com/txmgr/txmgr/timeout/survival"
	"github.com/txmgr/txmgr/txn"
	"github.com/txmgr/txmgr/txn/machine"
)

const (
	// scanStep is how much one look at the machine covers, so that a long list never
	// holds the log up: 20,000 transactions, or 1,200 of those that are found.
	scanStep = 20_000
	// maxExpiringScan is how many transactions of the survival index one look covers. When
	// more expire in the time that is asked for, looking at all is as good.
	maxExpiringScan = 4096

	// defaultListLimit bounds a list that names no limit, and maxLimit every list.
	defaultListLimit = 1000
	maxListLimit     = 100_000
)

// newest collects the transactions of a list: those with the highest ids, all of which
// are in the range.
type newest struct {
	limit int
	fits  func(*machine.Transaction) bool
	ids   machine.IDRange
	found []machine.Transaction
}

func (l *newest) add(part []machine.Transaction) {
	for i := range part {
		if l.fits(&part[i]) {
			l.found = append(l.found, part[i])
		}
	}
	if len(l.found) > 2*l.limit {
		l.cut()
		l.ids.After = l.found[0].ID // what is older need not be looked at any more
	}
}

func (l *newest) cut() {
	l.found = eachOnce(l.found)
	l.found = l.found[max(len(l.found)-l.limit, 0):]
}

// List gives transactions in the order of their ids, the newest ones when there
// are more than the filter's limit.
func (n *Node) List(ctx context.Context, f txn.Filter) ([]txn.Info, error) {
	if err := n.requireReadable(ctx); err != nil {
		return nil, txn.Wrap("list", txn.ID{}, err)
	}
	limit := f.Limit
	if limit <= 0 {
		limit = defaultListLimit
	}
	l := newest{
		limit: min(limit, maxListLimit), ids: machine.IDRange{Before: f.Before},
		fits: func(t *machine.Transaction) bool { return fits(f, t) },
	}
	match := n.matcher(f)
	if !n.expiring(&l, f, match) {
		if err := n.scan(ctx, &l, f, match); err != nil {
			return nil, txn.Wrap("list", txn.ID{}, err)
		}
	}
	l.cut()
	out := make([]txn.Info, len(l.found))
	for i := range l.found {
		out[i] = n.info(&l.found[i], true)
	}
	return out, nil
}

// expiring answers from the survival index what is asked about its beginning; false when
// it is not the index that is asked for, or too much of it.
func (n *Node) expiring(l *newest, f txn.Filter, match func(machine.Summary) bool) bool {
	if f.ExpiresWithin <= 0 {
		return false
	}
	var part []machine.Transaction
	var ok bool
	until := n.expiryBound(f)
	n.fsm.View(func(m *machine.Machine) {
		part, ok = m.Expiring(until, maxExpiringScan, l.ids, match)
	})
	l.add(part)
	return ok
}

// scan looks at what has a record, then at the outcomes that are kept, in this order: what
// finishes meanwhile is met.
func (n *Node) scan(ctx context.Context, l *newest, f txn.Filter, match func(machine.Summary) bool) error {
	for from, more := uint32(0), true; more; more = from != 0 {
		var part []machine.Transaction
		n.fsm.View(func(m *machine.Machine) { part, from = m.Scan(from, scanStep, l.ids, match) })
		l.add(part)
		if err := context.Cause(ctx); err != nil {
			return err
		}
	}
	if f.ExpiresWithin > 0 || len(f.States) > 0 && !slices.ContainsFunc(f.States, txn.State.Finished) {
		return nil
	}
	for from, more := (machine.RetainedCursor{}), true; more; more = from != (machine.RetainedCursor{}) {
		var part []machine.Transaction
		n.fsm.View(func(m *machine.Machine) { part, from = m.ScanRetained(from, scanStep, l.ids, match) })
		l.add(part)
		if err := context.Cause(ctx); err != nil {
			return err
		}
	}
	return nil
}

// eachOnce sorts by id. One that finished during the scan was found twice: what was found later holds.
func eachOnce(found []machine.Transaction) []machine.Transaction {
	slices.SortStableFunc(found, func(a, b machine.Transaction) int { return b.ID.Compare(a.ID) })
	slices.Reverse(found) // and so the later of two is the first
	return slices.CompactFunc(found, func(a, b machine.Transaction) bool { return a.ID == b.ID })
}

// expiryBound is the tick until which a transaction has to expire that the filter chooses by
// that.
func (n *Node) expiryBound(f txn.Filter) survival.Tick {
	tick, _ := n.clock.now()
	if f.ExpiresWithin > 0 {
		tick += survival.Tick(f.ExpiresWithin/max(n.interval(), 1)) + 1 // a node of no cluster has none
	}
	return tick
}

// DeadlineGroups shows a part of the survival index: the groups that end at the range's tick or
// later, at most as many as it says, the one that ends first before the others.
func (n *Node) DeadlineGroups(ctx context.Context, r txn.DeadlineGroupRange) (txn.DeadlineGroups, error) {
	if err := n.requireReadable(ctx); err != nil {
		return txn.DeadlineGroups{}, txn.Wrap("timeouts", txn.ID{}, err)
	}
	limit := min(r.Limit, txn.MaxDeadlineGroups)
	if limit <= 0 {
		limit = txn.DefaultDeadlineGroups
	}
	tick, _ := n.clock.now()
	g := txn.DeadlineGroups{Tick: uint64(tick), Interval: txn.Duration(n.interval()), Groups: []txn.DeadlineGroup{}}
	n.fsm.View(func(m *machine.Machine) {
		for end, count := range m.DeadlineGroups(survival.Tick(r.From)) {
			if len(g.Groups) == limit {
				g.Next = uint64(end)
				return
			}
			g.Groups = append(g.Groups, txn.DeadlineGroup{ExpiryTick: uint64(end), Transactions: count})
		}
	})
	for i := range g.Groups {
		end := survival.Tick(g.Groups[i].ExpiryTick)
		g.Groups[i].ExpiresIn = txn.Duration(n.clock.remaining(end).Round(time.Millisecond))
		if end > tick {
			g.Groups[i].RemainingInvocations = uint64(end - tick)
		}
	}
	return g, nil
}
