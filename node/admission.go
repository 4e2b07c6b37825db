package node

import (
	"sync/atomic"

	"github.com/txmgr/txmgr/node/participants"
	"github.com/txmgr/txmgr/txn"
	"github.com/txmgr/txmgr/txn/machine"
)

// admission is what decides whether new work is taken, as of the latest entry that was applied, and
// what names it.
type admission struct {
	unfinished  atomic.Int64 // transactions
	quotas      *participants.Quotas
	optimizers  participants.Optimizers
	branchHints txn.BranchHints
	cluster     atomic.Pointer[string] // the cluster's id; nil until it is known, and then for ever the same
}

// refreshAdmission reads from the state machine what admission depends on: the number of
// unfinished transactions, and the participants' quotas and optimizers.
func (n *Node) refreshAdmission() {
	var unfinished int64
	var registered []machine.Registration
	n.fsm.View(func(m *machine.Machine) {
		c := m.Counts()
		unfinished, registered = int64(c.Undecided+c.Completing), m.Participants()
	})
	n.admission.unfinished.Store(unfinished)
	n.admission.quotas.Observe(registered)
	n.admission.optimizers.Observe(registered)
}
