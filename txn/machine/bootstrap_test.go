package machine

import (
	"testing"
	"time"
)

// TestBootstrapRefuses each field by itself, and a second form of the cluster.
func TestBootstrapRefuses(t *testing.T) {
	good := Bootstrap{Cluster: "c1", Interval: 1, Retention: 0, Retain: 1 << 20}
	for name, change := range map[string]func(*Bootstrap){
		"no cluster":         func(b *Bootstrap) { b.Cluster = "" },
		"no interval":        func(b *Bootstrap) { b.Interval = 0 },
		"negative interval":  func(b *Bootstrap) { b.Interval = -1 },
		"negative retention": func(b *Bootstrap) { b.Retention = -1 },
	} {
		m, b := New(), good
		change(&b)
		before := m.Hash()
		if code := m.Apply(Entry{Commands: []Command{b}}).Results[0].Code; code != Malformed || m.Hash() != before {
			t.Errorf("%s: %s, changed: %v", name, codeNames[code], m.Hash() != before)
		}
	}
	m := New()
	do(t, m, good, good)
	other := good
	other.Interval = time.Second
	if code := m.Apply(Entry{Commands: []Command{other}}).Results[0].Code; code != Conflict {
		t.Errorf("another interval: %s", codeNames[code])
	}
}
