package node

import (
	"context"
	"strings"

	"github.com/txmgr/txmgr/node/audit"
	"github.com/txmgr/txmgr/txn"
	"github.com/txmgr/txmgr/txn/admin"
	"github.com/txmgr/txmgr/txn/machine"
)

// optionalReason returns the operator's reason, which may be empty, in the form that the log accepts.
func optionalReason(op, reason string) (string, error) {
	reason = strings.TrimSpace(reason)
	if len(reason) > txn.MaxReason {
		return "", tooLongError(op, txn.ID{}, "reason", len(reason))
	}
	return reason, nil
}

// Audit implements [admin.InDoubts].
func (n adminCalls) Audit(ctx context.Context, f admin.AuditFilter) ([]admin.AuditRecord, error) {
	if err := n.requireReadable(ctx); err != nil {
		return nil, txn.Wrap("audit list", txn.ID{}, err)
	}
	var all []machine.AuditRecord
	n.fsm.View(func(m *machine.Machine) { all = m.Audit() })
	return audit.Select(all, f, n.conf.wall()), nil
}
