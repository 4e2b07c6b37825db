package soak

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/txmgr/txmgr/internal/rig"
	"github.com/txmgr/txmgr/txn"
)

// TestStallIsFound: by its length, without the time for which the machine stalled.
func TestStallIsFound(t *testing.T) {
	for _, c := range []struct {
		silent, stood time.Duration
		elect, stall  bool
	}{
		{silent: 4900 * time.Millisecond},
		{silent: 5100 * time.Millisecond, stall: true},
		{silent: 7 * time.Second, elect: true},
		{silent: 8100 * time.Millisecond, elect: true, stall: true},
		{silent: 9 * time.Second, stood: 5 * time.Second},
		{silent: 11 * time.Second, stood: 5 * time.Second, stall: true},
	} {
		t.Run(fmt.Sprintf("%+v", c), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := &testEnv{t: t, calls: newRecorder()}
				b.writes.last = time.Now()
				if c.elect {
					defer b.disturbances.begin("election", true)()
				}
				from := time.Now().Add(time.Second)
				<-time.After(c.silent)
				b.hostStalls.Note(from, from.Add(c.stood))
				b.hostStalls.Note(from, from.Add(c.stood/2)) // both controls were late: counted once
				if got := b.measurePause(false); got != c.stall {
					t.Errorf("a stall: %v, want %v; %s", got, c.stall, b.writes.stalled)
				}
			})
		})
	}
}

// TestUnexpectedAnswers: an error needs its reason.
func TestUnexpectedAnswers(t *testing.T) {
	unavailable := &txn.Error{Err: txn.ErrUnavailable}
	over := &txn.Error{Err: fmt.Errorf("%w: %w", txn.ErrUnavailable, context.DeadlineExceeded)}
	for _, c := range []struct {
		call            string
		err             error
		late, disturbed bool
		unexpected      bool
	}{
		{call: "Get", err: &txn.Error{Err: txn.ErrNotFound}},
		{call: "List", err: &txn.Error{Err: txn.ErrNotFound}, disturbed: true, late: true, unexpected: true},
		{call: "List", err: unavailable, unexpected: true},
		{call: "List", err: unavailable, late: true, unexpected: true},
		{call: "List", err: unavailable, disturbed: true},
		{call: "CreateToken", err: unavailable, late: true},
		{call: "CreateToken", err: unavailable, unexpected: true},
		{call: "List", err: over, late: true},
		{call: "List", err: over, unexpected: true},
		{call: "List", err: &txn.Error{Err: txn.ErrInDoubt}, disturbed: true, unexpected: true},
		{call: "Commit", err: &txn.Error{Err: txn.ErrInDoubt}, disturbed: true},
		{call: "Commit", err: &txn.Error{Err: txn.ErrInDoubt}, unexpected: true},
		{call: "Begin", err: &txn.Error{Err: txn.ErrInvalid}, disturbed: true, late: true, unexpected: true},
	} {
		r, w := newRecorder(), &disturbances{}
		if c.disturbed {
			w.begin("fault", false)()
		}
		ctx, cancel := context.WithCancel(t.Context())
		if c.late {
			cancel()
		}
		_ = r.call(c.call, ctx, func() error { return c.err })
		cancel()
		if got := len(r.unexpected(w)) > 0; got != c.unexpected {
			t.Errorf("%s, late %v, disturbed %v: %v: unexpected %v, want %v", c.call, c.late, c.disturbed, c.err, got, c.unexpected)
		}
	}
}

// TestGrowthIsFound: of each resource.
func TestGrowthIsFound(t *testing.T) {
	before := resourceUse{goroutines: 100, descriptors: 70, heap: 16 << 20, disk: 1 << 20, own: 30}
	if err := before.exceeds(before); err != nil {
		t.Error(err)
	}
	for name, grow := range map[string]func(*resourceUse){
		"goroutines":          func(q *resourceUse) { q.goroutines += moreGoroutines + 1 },
		"descriptors":         func(q *resourceUse) { q.descriptors += moreDescriptors + 1 },
		"heap":                func(q *resourceUse) { q.heap += moreHeap + 1 },
		"outcomes":            func(q *resourceUse) { q.finished = 1 },
		"disk":                func(q *resourceUse) { q.disk = mostDisk + 1 },
		"goroutines, its own": func(q *resourceUse) { q.own += moreOwn + 1 },
	} {
		after := before
		grow(&after)
		if after.exceeds(before) == nil {
			t.Errorf("%s have grown, and that is no error", name)
		}
	}
}

// TestWrongTransfersAreFound: for each answer, what may be in the journals.
func TestWrongTransfersAreFound(t *testing.T) {
	legs := map[string]entry{inBank: {1, -5}, inVault: {2, 5}}
	half, other := map[string]entry{inBank: {1, -5}}, map[string]entry{inBank: {1, -5}, inVault: {2, 6}}
	for _, c := range []struct {
		outcome string
		found   map[string]entry
		right   bool
	}{
		{outcomeOK, legs, true},
		{outcomeOK, nil, false},
		{outcomeOK, half, false},
		{outcomeOK, other, false},
		{outcomeRolledBack, nil, true},
		{outcomeRolledBack, legs, false},
		{outcomeRolledBack, half, false},
		{outcomeUnavailable, nil, true},
		{outcomeUnavailable, legs, false},
		{outcomeInDoubt, nil, true},
		{outcomeInDoubt, legs, true},
		{outcomeInDoubt, half, false},
		{outcomeOther, nil, false},
	} {
		tr := &transfer{id: rig.NewID(), kind: kindPlain, legs: legs, outcome: c.outcome}
		if why := tr.check(c.found); (why == "") != c.right {
			t.Errorf("%s with %v: %q", c.outcome, c.found, why)
		}
	}
}
