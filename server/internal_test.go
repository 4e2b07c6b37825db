package server

import (
	"context"
	"fmt"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/txmgr/txmgr/txn/admin"
)

// Contexts are shared for a second, end in time, and do not accumulate.
func TestEpochs(t *testing.T) {
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

// The table of addresses that send wrong tokens is bounded, and each address is limited.
func TestFloodsAreBounded(t *testing.T) {
	var f authFailureLimiter
	now := time.Unix(1000, 0)
	for i := range 3 * maxTrackedPrefixes {
		f.recordFailure(fmt.Sprintf("10.%d.%d.%d:99", i>>16, i>>8&255, i&255), now)
	}
	if len(f.byPrefix) != maxTrackedPrefixes {
		t.Errorf("%d addresses", len(f.byPrefix))
	}
	if f.recordFailure("192.0.2.1:1", now) == 0 {
		t.Error("those that are not told apart are not limited")
	}
	now = now.Add(time.Hour)
	if f.recordFailure("192.0.2.1:1", now) != 0 || len(f.byPrefix) > 2 {
		t.Errorf("an hour later: %d addresses", len(f.byPrefix))
	}
	// One IPv6 client holds a whole /64.
	for i := range authFailureBurst + 1 {
		after := f.recordFailure(fmt.Sprintf("[2001:db8::%x]:1", i+1), now)
		if (after > 0) != (i == authFailureBurst) {
			t.Errorf("%d: %v", i, after)
		}
	}
	if f.recordFailure("not an address", now) != 0 {
		t.Error("refused at once")
	}
}

// Limiters of tokens that are gone are removed.
func TestRatesAreBounded(t *testing.T) {
	var r tokenLimiters
	for i := range admin.MaxTokens + 10 {
		if r.limiterFor(admin.Token{ID: fmt.Sprint(i), Rate: 7}).Burst() != 7 {
			t.Fatal("not its rate")
		}
	}
	if len(r.byToken) > admin.MaxTokens || r.limiterFor(admin.Token{ID: "x"}) != nil {
		t.Errorf("%d limits", len(r.byToken))
	}
}

func TestTimeoutOf(t *testing.T) {
	for _, c := range []struct {
		name, value string
		want        time.Duration
		ok          bool
	}{
		{"Connect-Timeout-Ms", "1500", 1500 * time.Millisecond, true},
		{"Connect-Timeout-Ms", "-1", 0, false},
		{"Connect-Timeout-Ms", "9999999999", 0, false},
		{"Grpc-Timeout", "3S", 3 * time.Second, true},
		{"Grpc-Timeout", "250m", 250 * time.Millisecond, true},
		{"Grpc-Timeout", "99999999u", 99999999 * time.Microsecond, true},
		{"Grpc-Timeout", "99999999H", time.Hour, true},
		{"Grpc-Timeout", "999999999S", 0, false},
		{"Grpc-Timeout", "3x", 0, false},
		{"Grpc-Timeout", "S", 0, false},
		{"Grpc-Timeout", "", 0, false},
	} {
		got, ok := timeoutOf(http.Header{c.name: {c.value}})
		if got != c.want || ok != c.ok {
			t.Errorf("%s: %s: %v, %t", c.name, c.value, got, ok)
		}
	}
}
