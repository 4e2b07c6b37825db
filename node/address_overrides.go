package node

import "sync"

// addressOverrides are addresses of nodes that were started with another one than raft's configuration
// says, as they have said themselves. When most nodes have moved, they find one another by
// that, and can elect the leader that changes the configuration.
type addressOverrides struct {
	configured func(id string) string

	mu        sync.Mutex
	overrides map[string]addressOverride // guarded by mu: by node id
}

type addressOverride struct{ from, to string }

// record takes what a node says of itself.
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

// address is where a node is, unless raft's configuration knows that, or knows something
// newer.
func (m *addressOverrides) address(id string) string {
	m.mu.Lock()
	known, ok := m.overrides[id]
	m.mu.Unlock()
	if !ok || m.configured(id) != known.from {
		return ""
	}
	return known.to
}
