package query

import (
	"context"
	"slices"

	"github.com/txmgr/txmgr/txn"
	"github.com/txmgr/txmgr/txn/admin"
	"github.com/txmgr/txmgr/txn/machine"
)

const (
	// scanStep is how much of the state machine one read covers, so that a long list never
	// delays the log: 20,000 transactions, or 1,200 that match.
	scanStep = 20_000
	// MaxExpiringScan is how many transactions of the survival index one read covers. If more
	// expire in the requested time, a full scan is as good.
	MaxExpiringScan = 4096

	// defaultListLimit bounds a list without a limit, and maxListLimit every list.
	defaultListLimit = 1000
	maxListLimit     = 100_000
)

// newest collects the transactions of a list: those with the highest ids in the range.
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
		l.ids.After = l.found[0].ID // older ones need not be read any more
	}
}

func (l *newest) cut() {
	l.found = eachOnce(l.found)
	l.found = l.found[max(len(l.found)-l.limit, 0):]
}

// List returns transactions in the order of their ids: the newest ones, if there are more than
// the filter's limit.
func (r Reader) List(ctx context.Context, f admin.Filter) ([]txn.Info, error) {
	limit := f.Limit
	if limit <= 0 {
		limit = defaultListLimit
	}
	l := newest{
		limit: min(limit, maxListLimit), ids: machine.IDRange{Before: f.Before},
		fits: func(t *machine.Transaction) bool { return fits(f, t) },
	}
	match := r.matcher(f)
	if !r.expiring(&l, f, match) {
		if err := r.scan(ctx, &l, f, match); err != nil {
			return nil, txn.Wrap("list", txn.ID{}, err)
		}
	}
	l.cut()
	out := make([]txn.Info, len(l.found))
	for i := range l.found {
		out[i] = r.Info(&l.found[i])
	}
	return out, nil
}

// expiring answers a filter by expiry from the beginning of the survival index; false when the
// filter is none by expiry, or matches too many transactions.
func (r Reader) expiring(l *newest, f admin.Filter, match func(machine.Summary) bool) bool {
	if f.ExpiresWithin <= 0 {
		return false
	}
	var part []machine.Transaction
	var ok bool
	until := r.expiryBound(f)
	r.View(func(m *machine.Machine) {
		part, ok = m.Expiring(until, MaxExpiringScan, l.ids, match)
	})
	l.add(part)
	return ok
}

// scan reads the transactions that have a record, and then the retained outcomes. In this order
// it does not miss a transaction that finishes meanwhile.
func (r Reader) scan(ctx context.Context, l *newest, f admin.Filter, match func(machine.Summary) bool) error {
	for from, more := uint32(0), true; more; more = from != 0 {
		var part []machine.Transaction
		r.View(func(m *machine.Machine) { part, from = m.Scan(from, scanStep, l.ids, match) })
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
		r.View(func(m *machine.Machine) { part, from = m.ScanRetained(from, scanStep, l.ids, match) })
		l.add(part)
		if err := context.Cause(ctx); err != nil {
			return err
		}
	}
	return nil
}

// eachOnce sorts by id and removes duplicates. A transaction that finished during the scan was
// found twice: the later record is kept.
func eachOnce(found []machine.Transaction) []machine.Transaction {
	slices.SortStableFunc(found, func(a, b machine.Transaction) int { return b.ID.Compare(a.ID) })
	slices.Reverse(found) // so that the later of two comes first
	return slices.CompactFunc(found, func(a, b machine.Transaction) bool { return a.ID == b.ID })
}
