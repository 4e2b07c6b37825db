package txntest

import (
	"cmp"
	"context"

	"github.com/txmgr/txmgr/internal/random"
	"github.com/txmgr/txmgr/txn"
)

// NameTransaction implements [txn.Namer].
func (m *Manager) NameTransaction(_ context.Context, o txn.Options) (n txn.Naming, ok bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	o.Timeout = cmp.Or(o.Timeout, txn.DefaultTimeout)
	if _, _, err := m.deadlineLocked(o.Timeout); err != nil || m.closed {
		return n, false // the call says why
	}
	o.ID, o.Mark = random.TransactionID(), m.machine.Mark()
	return txn.Naming{Options: o, Cluster: cluster, Appoints: true}, true
}
