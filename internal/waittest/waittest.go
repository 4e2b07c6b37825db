// Package waittest waits, in tests, for what sends no notification.
package waittest

import (
	"testing"
	"time"
)

// interval is the time between two polls.
const interval = 2 * time.Millisecond

// Until polls ok, and ends the test if it is not true within a minute.
func Until(t testing.TB, what string, ok func() bool) {
	t.Helper()
	if !poll(time.Minute, ok) {
		t.Fatalf("%s: not within a minute", what)
	}
}

// NoError repeats try until it returns nil, and ends the test if it does not within half a minute.
func NoError(t testing.TB, try func() error) {
	t.Helper()
	var err error
	if !poll(30*time.Second, func() bool { err = try(); return err == nil }) {
		t.Fatalf("still: %v", err)
	}
}

func poll(limit time.Duration, ok func() bool) bool {
	tick, deadline := time.NewTicker(interval), time.NewTimer(limit)
	defer tick.Stop()
	defer deadline.Stop()
	for !ok() {
		select {
		case <-tick.C:
		case <-deadline.C:
			return false
		}
	}
	return true
}
