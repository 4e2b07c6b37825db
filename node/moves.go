package node

import "sync"

// moves are addresses of nodes that were started with another one than raft's configuration
// says, as they have said themselves. When most nodes have moved, they find one another by
// that, and can elect the leader that changes the configuration.
type moves struct {
	configured func(id string) string

	mu sync.Mutex
	to map[string]move // guarded by mu: by node id
}

type move struct{ from, to string }

// note takes what a node says of itself.
func (m *moves) note(id, configured, said string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.to, id)
	if configured == "" || said == "" || said == configured {
		return
	}
	if m.to == nil {
		m.to = make(map[string]move)
	}
	m.to[id] = move{configured, said}
}

// address is where a node is, unless raft's configuration knows that, or knows something
// newer.
func (m *moves) address(id string) string {
	m.mu.Lock()
	known, ok := m.to[id]
	m.mu.Unlock()
	if !ok || m.configured(id) != known.from {
		return ""
	}
	return known.to
}
