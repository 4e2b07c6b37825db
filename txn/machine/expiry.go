package machine

import (
	"github.com/txmgr/txmgr/timeout/survival"
	"github.com/txmgr/txmgr/txn"
)

// TimedOut returns the expiry tick of a transaction that the entry with the given index rolled
// back because its deadline had passed; false for any other.
func (m *Machine) TimedOut(id txn.ID, index uint64) (expiry survival.Tick, ok bool) {
	if i, ok := m.index[id]; ok {
		r := m.txs.at(i)
		return r.expiry, r.cause == txn.CauseTimeout && r.entry == index
	}
	t, ok := m.Get(id)
	return t.Expiry, ok && t.Cause == txn.CauseTimeout && t.DecidedIndex == index
}
