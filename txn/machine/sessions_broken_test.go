package machine

import "testing"

// TestCheckFindsSessionsThatDisagree: numbers and lists of sessions are compared, each
// with the others.
func TestCheckFindsSessionsThatDisagree(t *testing.T) {
	for name, spoil := range map[string]func(*sessions){
		"number of open sessions": func(g *sessions) { g.open++ },
		"length of a list":        func(g *sessions) { g.slab.Edit(1).count++ },
		"end of a list":           func(g *sessions) { g.slab.Edit(1).last++ },
	} {
		m := bootstrapped(t, "bank")
		beginInSessions(m, 3, 90)
		if err := m.CheckInvariants(); err != nil {
			t.Fatal(err)
		}
		if spoil(&m.sessions); m.CheckInvariants() == nil {
			t.Errorf("%s: not found", name)
		}
	}
}
