package auth

import (
	"fmt"
	"testing"
	"time"

	"github.com/txmgr/txmgr/txn/admin"
)

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
