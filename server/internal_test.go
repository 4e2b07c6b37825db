package server

import (
	"context"
	"testing"
	"testing/synctest"
	"time"
)

// Contexts are shared for a second, end in time, and do not pile up.
func TestEpochs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		parent, cancel := context.WithCancel(t.Context())
		defer cancel()
		e := epochs{parent: parent, length: 3 * time.Second}
		first := e.at(time.Now())
		if e.at(time.Now().Add(999*time.Millisecond)) != first {
			t.Error("not shared within a second")
		}
		seen := []context.Context{first}
		for range 20 {
			<-time.After(time.Second)
			c := e.at(time.Now())
			if c == seen[len(seen)-1] {
				t.Fatal("shared for longer than a second")
			}
			if until, _ := c.Deadline(); time.Until(until) < e.length || time.Until(until) > e.length+time.Second {
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

func TestQuota(t *testing.T) {
	q, now := newQuota(10), time.Unix(1000, 0)
	said := 0
	for range 25 {
		if ok, _ := q.take(now); ok {
			said++
		}
	}
	if said != 10 {
		t.Errorf("said %d", said)
	}
	if ok, suppressed := q.take(now.Add(time.Second)); !ok || suppressed != 15 {
		t.Errorf("a second later: %t, %d", ok, suppressed)
	}
	if _, suppressed := q.take(now.Add(time.Second)); suppressed != 0 {
		t.Errorf("counted twice: %d", suppressed)
	}
}
