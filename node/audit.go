package node

import (
	"context"
	"slices"

	"github.com/txmgr/txmgr/txn"
	"github.com/txmgr/txmgr/txn/admin"
	"github.com/txmgr/txmgr/txn/machine"
)

// maxAudit is the limit of [Node.Audit] for a filter without one.
const maxAudit = 1000

// Audit lists the actions of operators on transactions and participants, oldest first: the
// newest records that match, of the newest 10,000 that the log keeps.
func (n *Node) Audit(ctx context.Context, f admin.AuditFilter) ([]admin.AuditRecord, error) {
	if err := n.requireReadable(ctx); err != nil {
		return nil, txn.Wrap("audit list", txn.ID{}, err)
	}
	limit := f.Limit
	if limit <= 0 {
		limit = maxAudit
	}
	var all []machine.AuditRecord
	n.fsm.View(func(m *machine.Machine) { all = m.Audit() })
	oldest := n.conf.wall().Add(-f.Since).UnixMilli()
	out := []admin.AuditRecord{}
	for i := len(all) - 1; i >= 0 && len(out) < limit; i-- {
		if a := &all[i]; (f.ID.IsZero() || a.ID == f.ID) && (f.Since <= 0 || a.Wall >= oldest) {
			out = append(out, a.Public())
		}
	}
	slices.Reverse(out)
	return out, nil
}
