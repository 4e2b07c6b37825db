package node

import (
	"github.com/txmgr/txmgr/timeout/survival"
	"github.com/txmgr/txmgr/txn"
	"github.com/txmgr/txmgr/txn/machine"
)

// recordTimeoutLag records the lag of the timeouts of the entry with the given index, and returns
// one of the transactions. Those of one deadline group are adjacent.
func (n *Node) recordTimeoutLag(index uint64, changes []machine.Change) (one txn.ID, count int) {
	var expiries []survival.Tick // of the transactions that timed out
	n.fsm.View(func(m *machine.Machine) {
		for _, c := range changes {
			if c.Cause != txn.CauseTimeout {
				continue
			}
			if e, ok := m.TimedOut(c.ID, index); ok {
				one, expiries = c.ID, append(expiries, e)
			}
		}
	})
	for i := 0; i < len(expiries); {
		j := i + 1
		for j < len(expiries) && expiries[j] == expiries[i] {
			j++
		}
		n.measured.timeoutLag.Record(n.clock.Elapsed(expiries[i]), j-i)
		i = j
	}
	return one, len(expiries)
}
