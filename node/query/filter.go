package query

import (
	"slices"
	"strings"

	"github.com/txmgr/txmgr/timeout/survival"
	"github.com/txmgr/txmgr/txn/admin"
	"github.com/txmgr/txmgr/txn/machine"
)

// matcher tests the parts of a filter that a summary answers, without decoding the transaction.
func (r Reader) matcher(f admin.Filter) func(machine.Summary) bool {
	bornBefore := r.Wall().Add(-f.OlderThan).UnixMilli()
	within := r.expiryBound(f)
	return func(b machine.Summary) bool {
		if len(f.States) > 0 && !slices.Contains(f.States, b.State) || f.OlderThan > 0 && b.Began > bornBefore {
			return false
		}
		if f.ExpiresWithin > 0 && (b.State.Decided() || b.Delegated || b.Expiry > within) {
			return false
		}
		return f.Prefix == "" || strings.HasPrefix(b.ID.String(), f.Prefix)
	}
}

func fits(f admin.Filter, t *machine.Transaction) bool {
	if f.Participant != "" && !slices.ContainsFunc(t.Branches, func(b machine.TransactionBranch) bool { return b.Participant == f.Participant }) {
		return false
	}
	for k, v := range f.Labels {
		if !slices.Contains(t.Labels, machine.Label{Key: k, Value: v}) {
			return false
		}
	}
	return true
}

// expiryBound is the last expiry tick that a filter by expiry selects.
func (r Reader) expiryBound(f admin.Filter) survival.Tick {
	tick, _ := r.Clock.Now()
	if f.ExpiresWithin > 0 {
		tick += survival.Tick(f.ExpiresWithin/max(r.bootstrap().Interval, 1)) + 1 // the interval is zero while the node belongs to no cluster
	}
	return tick
}
