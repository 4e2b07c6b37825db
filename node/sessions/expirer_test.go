package sessions

import (
	"bytes"
	"context"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/txmgr/txmgr/txn"
	"github.com/txmgr/txmgr/txn/machine"
)

// stubLog refuses what the state machine refuses.
type stubLog struct{}

func (stubLog) ProposeInTerm(_ context.Context, _ uint64, c machine.Command, _ func()) (machine.Result, error) {
	if len(c.(machine.ExpireSessions).IDs) > machine.MaxExpire {
		return machine.Result{Code: machine.Malformed}, nil
	}
	return machine.Result{Code: machine.OK}, nil
}

func newExpirer(t *testing.T, h slog.Handler) *Expirer {
	t.Helper()
	p, err := NewExpirer(stubLog{}, func(func(*machine.Machine)) {}, 1, slog.New(h))
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// TestLateRotationsAreNotMadeUpFor: a leader that was suspended for longer than the TTL receives
// the waiting keep-alives, and then counts from there.
func TestLateRotationsAreNotMadeUpFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newExpirer(t, slog.DiscardHandler) // not run: its turns are this test's
		id := txn.SessionID{1}
		const ttl = 8 * time.Second
		p.Add([]machine.SessionLease{{ID: id, TTL: ttl}})
		p.loaded = true
		p.rotateDue(t.Context())
		<-time.After(10 * ttl)
		p.Renew(id, ttl)
		for range 10 * slotsPerTTL {
			p.rotateDue(t.Context())
		}
		if !p.Renew(id, ttl) {
			t.Fatal("expired by rotations that follow each other at once")
		}
		heard := time.Now()
		for sleep := time.Duration(0); p.groupFor(ttl).belt.Len() > 0; sleep = p.rotateDue(t.Context()) {
			<-time.After(sleep)
		}
		if took := time.Since(heard); took < ttl || took > ttl+ttl/slotsPerTTL {
			t.Errorf("expired after %v; want %v to %v", took, ttl, ttl+ttl/slotsPerTTL)
		}
		p.done.Wait()
	})
}

// TestLogOfSessionsThatAreNotExpired: an expiry that the log has refused is not logged as done.
func TestLogOfSessionsThatAreNotExpired(t *testing.T) {
	var lines bytes.Buffer
	p := newExpirer(t, slog.NewTextHandler(&lines, nil))
	p.expire(t.Context(), make([]txn.SessionID, machine.MaxExpire+1))
	const refused, done = "the log refused to expire sessions", "sessions expired: what was undecided in them is rolled back"
	if told := lines.String(); !strings.Contains(told, refused) || strings.Contains(told, done) {
		t.Errorf("the log tells %q", told)
	}
	lines.Reset()
	p.expire(t.Context(), make([]txn.SessionID, 2))
	if told := lines.String(); strings.Contains(told, refused) || !strings.Contains(told, done) || !strings.Contains(told, "count=2") {
		t.Errorf("the log tells %q", told)
	}
}
