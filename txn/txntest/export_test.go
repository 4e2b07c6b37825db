package txntest

// Armed reports whether a timer is set.
func (m *Manager) Armed() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.timer != nil
}

// CheckInvariants verifies the invariants of the machine, and that no branch is driven that
// needs no driving.
func (m *Manager) CheckInvariants() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.machine.CheckInvariants()
}
