package node

import (
	"context"

	"github.com/txmgr/txmgr/node/audit"
	"github.com/txmgr/txmgr/txn"
	"github.com/txmgr/txmgr/txn/admin"
	"github.com/txmgr/txmgr/txn/machine"
)

// Audit implements [admin.InDoubts].
func (n adminCalls) Audit(ctx context.Context, f admin.AuditFilter) ([]admin.AuditRecord, error) {
	if err := n.requireReadable(ctx); err != nil {
		return nil, txn.Wrap("audit list", txn.ID{}, err)
	}
	var all []machine.AuditRecord
	n.fsm.View(func(m *machine.Machine) { all = m.Audit() })
	return audit.Select(all, f, n.conf.wall()), nil
}
