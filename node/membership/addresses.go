package membership

import "sync"

// addressOverrides are the addresses of nodes that were started with an address other than the
// one in raft's configuration, as the nodes reported them. When most nodes have moved, they
// find one another by these addresses, and can elect the leader that changes the configuration.
type addressOverrides struct {
	configured func(id string) string

	mu        sync.Mutex
	overrides map[string]addressOverride // guarded by mu: by node id
}

type addressOverride struct{ from, to string }

// record records the address that a node reports for itself.
func (m *addressOverrides) record(id, configured, said string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.overrides, id)
	if configured == "" || said == "" || said == configured {
		return
	}
	if m.overrides == nil {
		m.overrides = make(map[string]addressOverride)
	}
	m.overrides[id] = addressOverride{configured, said}
}

// address is the override for a node; empty when there is none, or when raft's configuration
// has changed since it was recorded.
func (m *addressOverrides) address(id string) string {
	m.mu.Lock()
	known, ok := m.overrides[id]
	m.mu.Unlock()
	if !ok || m.configured(id) != known.from {
		return ""
	}
	return known.to
}
