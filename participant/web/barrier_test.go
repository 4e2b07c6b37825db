package web

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/txmgr/txmgr/internal/waittest"
	"github.com/txmgr/txmgr/participant"
	"github.com/txmgr/txmgr/txn"
)

// TestBarrierTable: every phase in every state.
func TestBarrierTable(t *testing.T) {
	for _, c := range []struct {
		phase, state string
		run          bool
		next         string
		status       int
	}{
		{phasePrepare, stateNone, true, statePrepared, 200},
		{phasePrepare, statePrepared, false, statePrepared, 200},
		{phasePrepare, stateReadOnly, false, stateReadOnly, 200},
		{phasePrepare, stateNo, false, stateNo, 409},
		{phasePrepare, stateCommitted, false, stateCommitted, 200},
		{phasePrepare, stateRolledBack, false, stateRolledBack, 409},
		{phaseCommit, stateNone, false, stateNone, 404},
		{phaseCommit, statePrepared, true, stateCommitted, 200},
		{phaseCommit, stateReadOnly, false, stateReadOnly, 200},
		{phaseCommit, stateNo, false, stateNo, 409},
		{phaseCommit, stateCommitted, false, stateCommitted, 200},
		{phaseCommit, stateRolledBack, false, stateRolledBack, 409},
		{phasePrepare, stateNever, false, stateNever, 409},
		{phaseCommit, stateNever, false, stateNever, 409},
		{phaseRollback, stateNone, false, stateNever, 200},
		{phaseRollback, stateNever, false, stateNever, 200},
		{phaseRollback, statePrepared, true, stateRolledBack, 200},
		{phaseRollback, stateReadOnly, false, stateReadOnly, 200},
		{phaseRollback, stateNo, false, stateNo, 200},
		{phaseRollback, stateCommitted, false, stateCommitted, 409},
		{phaseRollback, stateRolledBack, false, stateRolledBack, 200},
		{phasePrepare, stateEndedByApplication, false, stateEndedByApplication, 409},
		{phaseCommit, stateEndedByApplication, false, stateEndedByApplication, 409},
		{phaseRollback, stateEndedByApplication, false, stateEndedByApplication, 409},
	} {
		got := nextStep(c.phase, c.state, "why")
		if got.run != c.run || got.state != c.next || got.answer.status != c.status {
			t.Errorf("%s of %q: %+v", c.phase, c.state, got)
		}
	}
}

// counting counts the calls of callbacks in the database, and outside of it.
type counting struct {
	mu    sync.Mutex
	calls map[string]int
	fail  func(phase string, b Branch) error // after the work; nil: never
}

func (c *counting) callbacks() callbacks {
	of := func(phase string) func(context.Context, work, Branch) error {
		return func(_ context.Context, do work, b Branch) error {
			c.mu.Lock()
			if c.calls == nil {
				c.calls = map[string]int{}
			}
			c.calls[phase]++
			c.mu.Unlock()
			if err := do(phase, 1); err != nil {
				return err
			}
			if c.fail != nil {
				return c.fail(phase, b)
			}
			return nil
		}
	}
	return callbacks{of(phasePrepare), of(phaseCommit), of(phaseRollback)}
}

func wantCounts(t *testing.T, bed *storeFixture, want map[string]int64) {
	t.Helper()
	if diff := cmp.Diff(want, bed.counts(t)); diff != "" {
		t.Errorf("counts (-want +got):\n%s", diff)
	}
}

func TestBranchGoesItsWayOnce(t *testing.T) {
	onEveryStore(t, func(t *testing.T, bed *storeFixture) {
		r := serving(t, bed.handler(new(counting).callbacks(), Options{}), nil)
		b, lost := newBranch(), newBranch()
		for range 3 {
			mustVote(t, r, b, txn.VotePrepared)
		}
		mustVote(t, r, lost, txn.VotePrepared)
		for range 3 {
			got, err := r.Commit(t.Context(), b)
			wantOutcome(t, "commit", got, err, participant.Committed, "", false)
			got, err = r.Rollback(t.Context(), lost)
			wantOutcome(t, "rollback", got, err, participant.RolledBack, "", false)
		}
		mustVote(t, r, b, txn.VotePrepared) // a late copy
		got, err := r.Rollback(t.Context(), b)
		wantOutcome(t, "rollback after commit", got, err, participant.Committed, "", false)
		got, err = r.Commit(t.Context(), lost)
		wantOutcome(t, "commit after rollback", got, err, participant.RolledBack, "", false)
		wantCounts(t, bed, map[string]int64{"prepare": 2, "commit": 1, "rollback": 1})
	})
}

// TestPrepareAfterRollbackIsRefused, even if nothing was prepared before; then no rollback
// callback is called.
func TestPrepareAfterRollbackIsRefused(t *testing.T) {
	onEveryStore(t, func(t *testing.T, bed *storeFixture) {
		r := serving(t, bed.handler(new(counting).callbacks(), Options{}), nil)
		empty := newBranch()
		for range 2 {
			got, err := r.Rollback(t.Context(), empty)
			wantOutcome(t, "empty rollback", got, err, participant.RolledBack, "", false)
			mustVote(t, r, empty, txn.VoteNo)
		}
		if n := bed.counts(t); len(n) != 0 {
			t.Errorf("counts %v", n)
		}
	})
}

// TestCommitOfAnUnknownBranchIsHeuristic: the branch was never prepared, or its row was deleted.
func TestCommitOfAnUnknownBranchIsHeuristic(t *testing.T) {
	onEveryStore(t, func(t *testing.T, bed *storeFixture) {
		r := serving(t, bed.handler(new(counting).callbacks(), Options{}), nil)
		b := newBranch()
		got, err := r.Commit(t.Context(), b)
		wantOutcome(t, "never prepared", got, err, participant.Unknown, "", false)
		mustVote(t, r, b, txn.VotePrepared) // the commit left no row
		bed.forget(t, b.XID)
		got, err = r.Commit(t.Context(), b)
		wantOutcome(t, "deleted row", got, err, participant.Unknown, "", false)
		if !strings.Contains(got.Detail, "404") || !strings.Contains(got.Detail, "never prepared here, or is forgotten") {
			t.Errorf("detail %q", got.Detail)
		}
		wantCounts(t, bed, map[string]int64{"prepare": 1})
	})
}

func TestNoIsFinalAndUndone(t *testing.T) {
	onEveryStore(t, func(t *testing.T, bed *storeFixture) {
		c := &counting{fail: func(string, Branch) error { return fmt.Errorf("wrapped: %w", No("no\nstock")) }}
		r := serving(t, bed.handler(c.callbacks(), Options{}), nil)
		b := newBranch()
		for range 3 {
			vote, detail, err := r.Prepare(t.Context(), b)
			if vote != txn.VoteNo || detail != "no stock" || err != nil {
				t.Errorf("%v, %q, %v", vote, detail, err)
			}
		}
		c.fail = nil
		mustVote(t, r, b, txn.VoteNo)
		got, err := r.Rollback(t.Context(), b)
		wantOutcome(t, "rollback", got, err, participant.RolledBack, "", false)
		got, err = r.Commit(t.Context(), b)
		wantOutcome(t, "commit", got, err, participant.RolledBack, "", false)
		if c.calls["prepare"] != 1 || len(bed.counts(t)) != 0 {
			t.Errorf("calls %v, counts %v", c.calls, bed.counts(t))
		}
	})
}

func TestReadOnlyTakesNoPart(t *testing.T) {
	onEveryStore(t, func(t *testing.T, bed *storeFixture) {
		r := serving(t, bed.handler(callbacks{prepare: func(context.Context, work, Branch) error { return ReadOnly }}, Options{}), map[string]string{"list": "/prepared"})
		b := newBranch()
		mustVote(t, r, b, txn.VoteReadOnly)
		mustVote(t, r, b, txn.VoteReadOnly)
		if list, err := r.Prepared(t.Context(), r.prefix); len(list) != 0 || err != nil {
			t.Errorf("list %v, %v", list, err)
		}
	})
}

// TestFailedCallbackLeavesNothing: errors and panics, in each phase; the next attempt succeeds.
func TestFailedCallbackLeavesNothing(t *testing.T) {
	onEveryStore(t, func(t *testing.T, bed *storeFixture) {
		var broken atomic.Value
		broken.Store("")
		c := &counting{fail: func(phase string, b Branch) error {
			switch broken.Load() {
			case phase + " fails":
				return errors.New("boom\x00")
			case phase + " panics":
				panic("boom")
			case phase + " says no":
				return No("too late for that")
			}
			return nil
		}}
		r := serving(t, bed.handler(c.callbacks(), Options{}), nil)
		b, other := newBranch(), newBranch()
		fails := func(why string, do func() error) {
			t.Helper()
			for _, how := range []string{" fails", " panics"} {
				broken.Store(why + how)
				before := bed.counts(t)
				if err := do(); err == nil || !strings.Contains(err.Error(), "500 Internal Server Error") || !strings.Contains(err.Error(), "boom") {
					t.Errorf("%s: %v", why+how, err)
				}
				wantCounts(t, bed, before)
			}
			broken.Store("")
		}
		prepare := func(b participant.Branch) func() error {
			return func() error { _, _, err := r.Prepare(t.Context(), b); return err }
		}
		commit := func() error { _, err := r.Commit(t.Context(), b); return err }
		rollback := func() error { _, err := r.Rollback(t.Context(), other); return err }
		fails(phasePrepare, prepare(b))
		check(t, prepare(b)())
		check(t, prepare(other)())
		fails(phaseCommit, commit)
		broken.Store("commit says no")
		if err := commit(); err == nil || !strings.Contains(err.Error(), "too late for that") {
			t.Errorf("a no to commit: %v", err)
		}
		broken.Store("")
		check(t, commit())
		fails(phaseRollback, rollback)
		check(t, rollback())
		wantCounts(t, bed, map[string]int64{"prepare": 2, "commit": 1, "rollback": 1})
	})
}

// TestDuplicatesAtOnce: many copies of each request, at two handlers on one
// database, as two processes have them.
func TestDuplicatesAtOnce(t *testing.T) {
	onEveryStore(t, func(t *testing.T, bed *storeFixture) {
		c := new(counting)
		both := []*resourceManager{serving(t, bed.handler(c.callbacks(), Options{}), nil), serving(t, bed.handler(c.callbacks(), Options{}), nil)}
		const branches, copies = 4, 6
		var all [branches]participant.Branch
		for i := range all {
			all[i] = newBranch()
		}
		flood := func(do func(r *resourceManager, b participant.Branch) error) {
			t.Helper()
			var wg sync.WaitGroup
			for n := range branches * copies {
				wg.Go(func() {
					b := all[n%branches]
					waittest.NoError(t, func() error { return do(both[n/branches%2], b) }) // a deadlock, or a row that was overtaken, is tried again
				})
			}
			wg.Wait()
		}
		flood(func(r *resourceManager, b participant.Branch) error {
			vote, _, err := r.Prepare(t.Context(), b)
			if err == nil && vote != txn.VotePrepared {
				t.Errorf("voted %v", vote)
			}
			return err
		})
		flood(func(r *resourceManager, b participant.Branch) error {
			got, err := r.Commit(t.Context(), b)
			if err == nil && got.Outcome != participant.Committed {
				t.Errorf("ended as %v", got.Outcome)
			}
			return err
		})
		wantCounts(t, bed, map[string]int64{"prepare": branches, "commit": branches})
	})
}

// TestPrepareAndRollbackAtOnce: in either order, no work remains.
func TestPrepareAndRollbackAtOnce(t *testing.T) {
	onEveryStore(t, func(t *testing.T, bed *storeFixture) {
		c := new(counting)
		both := []*resourceManager{serving(t, bed.handler(c.callbacks(), Options{}), map[string]string{"list": "/prepared"}), serving(t, bed.handler(c.callbacks(), Options{}), nil)}
		for range 20 {
			b := newBranch()
			var wg sync.WaitGroup
			wg.Go(func() {
				waittest.NoError(t, func() error { _, _, err := both[0].Prepare(t.Context(), b); return err })
			})
			wg.Go(func() {
				waittest.NoError(t, func() error { _, err := both[1].Rollback(t.Context(), b); return err })
			})
			wg.Wait()
		}
		n := bed.counts(t)
		if n["prepare"] != n["rollback"] {
			t.Errorf("counts %v", n)
		}
		if list, err := both[0].Prepared(t.Context(), "txm_"); len(list) != 0 || err != nil {
			t.Errorf("left prepared: %v, %v", list, err)
		}
	})
}

// TestSlowPrepareEndsAtTheDeadline: the callback's context ends, its work is rolled back, and the
// branch can be rolled back at once.
func TestSlowPrepareEndsAtTheDeadline(t *testing.T) {
	onEveryStore(t, func(t *testing.T, bed *storeFixture) {
		for name, stubborn := range map[string]bool{"obeys": false, "stubborn": true} {
			t.Run(name, func(t *testing.T) {
				over := make(chan error, 1)
				h := bed.handler(callbacks{prepare: func(ctx context.Context, do work, _ Branch) error {
					if err := do("slow", 1); err != nil {
						over <- ctx.Err() // the machine is so slow that the deadline has passed
						return err
					}
					<-ctx.Done()
					over <- ctx.Err()
					if stubborn {
						return nil
					}
					return ctx.Err()
				}}, Options{})
				r := serving(t, h, nil)
				b := newBranch()
				b.TimeLeft = 200 * time.Millisecond
				vote, _, err := r.Prepare(t.Context(), b)
				if vote != 0 || err == nil || !strings.Contains(err.Error(), "503") {
					t.Errorf("voted %v, %v", vote, err)
				}
				if err := <-over; !errors.Is(err, context.DeadlineExceeded) {
					t.Errorf("the callback's context: %v", err)
				}
				got, err := r.Rollback(t.Context(), b)
				wantOutcome(t, "rollback", got, err, participant.RolledBack, "", false)
				if n := bed.counts(t); len(n) != 0 {
					t.Errorf("counts %v", n)
				}
			})
		}
	})
}

// TestWorkOutlivesItsCaller: a commit that takes longer than the coordinator waits
// is finished nonetheless, and its repetition waits for it without a connection of
// the database.
func TestWorkOutlivesItsCaller(t *testing.T) {
	onEveryStore(t, func(t *testing.T, bed *storeFixture) {
		entered, goOn := make(chan struct{}), make(chan struct{})
		h := bed.handler(callbacks{commit: func(_ context.Context, do work, _ Branch) error {
			close(entered)
			<-goOn
			return do("commit", 1)
		}}, Options{})
		r := serving(t, h, nil)
		b := newBranch()
		mustVote(t, r, b, txn.VotePrepared)
		ctx, cancel := context.WithCancel(t.Context())
		gone := make(chan error)
		go func() { _, err := r.Commit(ctx, b); gone <- err }()
		<-entered
		cancel()
		if err := <-gone; !errors.Is(err, context.Canceled) {
			t.Errorf("got %v", err)
		}
		// More repetitions than the database has connections; all give up.
		var wg sync.WaitGroup
		for range 12 {
			wg.Go(func() {
				ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
				defer cancel()
				if _, err := r.Commit(ctx, b); err == nil {
					t.Error("committed while the first is at it")
				}
			})
		}
		wg.Wait()
		bed.counts(t) // a connection is free for other requests
		close(goOn)
		got, err := r.Commit(t.Context(), b)
		wantOutcome(t, "commit", got, err, participant.Committed, "", false)
		wantCounts(t, bed, map[string]int64{"commit": 1})
	})
}

func TestTimeoutOfTheHandler(t *testing.T) {
	bed := onPostgres(t)
	b := newBranch()
	mustVote(t, serving(t, bed.handler(callbacks{}, Options{}), nil), b, txn.VotePrepared)
	waits := callbacks{commit: func(ctx context.Context, _ work, _ Branch) error { <-ctx.Done(); return nil }}
	_, err := serving(t, bed.handler(waits, Options{Timeout: 50 * time.Millisecond}), nil).Commit(t.Context(), b)
	wantError(t, err, "was not done in the time that it had", false)
}

func TestPrune(t *testing.T) {
	onEveryStore(t, func(t *testing.T, bed *storeFixture) {
		r := serving(t, bed.handler(callbacks{}, Options{}), nil)
		prepared, committed, empty := newBranch(), newBranch(), newBranch()
		mustVote(t, r, prepared, txn.VotePrepared)
		mustVote(t, r, committed, txn.VotePrepared)
		_, err := r.Commit(t.Context(), committed)
		check(t, err)
		_, err = r.Rollback(t.Context(), empty)
		check(t, err)
		if n, err := bed.safely(t.Context(), MinAge-1); !errors.Is(err, txn.ErrInvalid) {
			t.Errorf("forgot %d that are needed, %v", n, err)
		}
		if n, err := bed.safely(t.Context(), MinAge); n != 0 || err != nil {
			t.Errorf("forgot %d that are young, %v", n, err)
		}
		if n, err := bed.prune(t.Context(), time.Now().Add(time.Minute)); n != 2 || err != nil {
			t.Errorf("forgot %d, %v", n, err)
		}
		got, err := r.Commit(t.Context(), prepared)
		wantOutcome(t, "prepared", got, err, participant.Committed, "", false)
		got, err = r.Commit(t.Context(), committed)
		wantOutcome(t, "forgotten", got, err, participant.Unknown, "", false)
	})
}

// TestLedgerRefusesWhatItCannotDo: the store itself votes no.
func TestLedgerRefusesWhatItCannotDo(t *testing.T) {
	bed := onLedger(t)
	r := serving(t, bed.handler(callbacks{prepare: func(_ context.Context, do work, _ Branch) error { return do("stock", -1) }}, Options{}), nil)
	b := newBranch()
	for range 2 {
		vote, detail, err := r.Prepare(t.Context(), b)
		if vote != txn.VoteNo || !strings.Contains(detail, "below zero") || err != nil {
			t.Errorf("%v, %q, %v", vote, detail, err)
		}
	}
}

func TestNilCallbacksDoNothing(t *testing.T) {
	r := serving(t, onLedger(t).handler(callbacks{}, Options{}), nil)
	b := newBranch()
	mustVote(t, r, b, txn.VotePrepared)
	got, err := r.Commit(t.Context(), b)
	wantOutcome(t, "commit", got, err, participant.Committed, "", false)
}
