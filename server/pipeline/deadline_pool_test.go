package pipeline

import (
	"context"
	"testing"
	"testing/synctest"
	"time"
)

// Contexts are shared for a second, end in time, and do not accumulate.
func TestDeadlinesAreShared(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		parent, cancel := context.WithCancel(t.Context())
		defer cancel()
		e := deadlinePool{parent: parent, timeout: 3 * time.Second}
		first := e.contextFor(time.Now())
		if e.contextFor(time.Now().Add(999*time.Millisecond)) != first {
			t.Error("not shared within a second")
		}
		seen := []context.Context{first}
		for range 20 {
			<-time.After(time.Second)
			c := e.contextFor(time.Now())
			if c == seen[len(seen)-1] {
				t.Fatal("shared for longer than a second")
			}
			if until, _ := c.Deadline(); time.Until(until) < e.timeout || time.Until(until) > e.timeout+time.Second {
				t.Errorf("ends in %v", time.Until(until))
			}
			seen = append(seen, c)
		}
		if len(e.cancels) > 7 {
			t.Errorf("%d contexts are kept", len(e.cancels))
		}
		for i, c := range seen[:len(seen)-5] {
			if c.Err() == nil {
				t.Errorf("context %d has not ended", i)
			}
		}
		for i, c := range seen[len(seen)-3:] {
			if c.Err() != nil {
				t.Errorf("young context %d has ended: %v", i, c.Err())
			}
		}
		cancel()
		if c := seen[len(seen)-1]; c.Err() == nil {
			t.Error("outlives its parent")
		}
	})
}
