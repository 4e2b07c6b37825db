package client

import (
	"errors"
	"testing"
	"time"

	"github.com/txmgr/txmgr/api/wire"
	"github.com/txmgr/txmgr/txn"
)

// Full jitter: anything from nothing to a ceiling that doubles and is bounded;
// never less than the server asked for.
func TestBackoff(t *testing.T) {
	plain := errors.New("lost")
	var longest time.Duration
	for n := range 40 {
		ceiling := min(firstBackoff<<min(n, 10), maxBackoff)
		for range 200 {
			d := backoff(n, plain)
			if d < 0 || d >= ceiling {
				t.Fatalf("after %d failures: %v", n, d)
			}
			longest = max(longest, d)
		}
		if d := backoff(n, &wire.RetryAfterError{After: time.Hour, Err: txn.ErrUnavailable}); d < time.Hour || d > time.Hour+maxBackoff {
			t.Fatalf("asked for an hour: %v", d)
		}
	}
	if longest < maxBackoff/2 {
		t.Errorf("never longer than %v: the jitter is not full", longest)
	}
}

// A message holds as many commands as fit, and at least one.
func TestTake(t *testing.T) {
	for _, c := range []struct{ calls, weight, want int }{
		{0, 1, 0},
		{1, maxCommandBytes, 1},
		{3, maxCommandBytes, 1},
		{10, maxBatchBytes / 4, 4},
		{maxBatch + 5, 1, maxBatch},
		{7, 64, 7},
	} {
		var queue []*call
		for range c.calls {
			queue = append(queue, &call{weight: c.weight})
		}
		if got := batchSize(queue); got != c.want {
			t.Errorf("%d of weight %d: took %d, want %d", c.calls, c.weight, got, c.want)
		}
	}
}

// The client follows a hint to the leader, but not to one that does not answer.
func TestFollow(t *testing.T) {
	c, err := Open(Config{Address: "http://a:1,http://b:2/base/,http://c:3"})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	}()
	at := func(want string) {
		t.Helper()
		if e, _ := c.currentEndpoint(); e.base != want {
			t.Errorf("at %s, want %s", e.base, want)
		}
	}
	at("http://a:1")
	c.switchToLeader("http://c:3/")
	at("http://c:3")
	c.switchToLeader("http://b:2/base")
	at("http://b:2/base")
	c.switchToLeader("http://stranger:1")
	at("http://b:2/base")
	_, n := c.currentEndpoint()
	c.switchToLeader("http://a:1")
	c.failOver(n) // of a call that failed before: no reason to leave a
	at("http://a:1")

	c.endpoints[2].health.record(false, time.Now())
	c.switchToLeader("http://c:3")
	at("http://a:1")
	c.endpoints[2].health.record(true, time.Now())
	c.switchToLeader("http://c:3")
	at("http://c:3")
}

func TestHealth(t *testing.T) {
	var h health
	now := time.Now()
	for _, want := range []time.Duration{1, 2, 4, 8, 16, 30, 30} {
		h.record(false, now)
		if until := want * time.Second; !h.coolingDown(now.Add(until-1)) || h.coolingDown(now.Add(until)) {
			t.Errorf("shunned until %v, want %v", h.cooldownUntil.Sub(now), until)
		}
	}
	h.record(true, now)
	if h.coolingDown(now) {
		t.Error("shunned though it answers")
	}
}
