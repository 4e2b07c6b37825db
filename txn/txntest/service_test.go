package txntest_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/txmgr/txmgr/txn"
	"github.com/txmgr/txmgr/txn/txntest"
)

// mail is a service with scripted answers, one for each call.
type mail struct {
	mu      sync.Mutex
	answers []answer
	calls   []string
}

type answer struct {
	vote txn.Vote
	err  error
}

func (s *mail) serve(ctx context.Context, c txntest.Call) (txn.Vote, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.calls = append(s.calls, fmt.Sprintf("%s %v %s", c.Phase, c.Branch, c.Payload))
	a := answer{vote: txn.VotePrepared}
	if len(s.answers) > 0 {
		a, s.answers = s.answers[0], s.answers[1:]
	}
	if errors.Is(a.err, context.DeadlineExceeded) {
		<-ctx.Done()
		a.err = context.Cause(ctx)
	}
	return a.vote, a.err
}

// TestServiceIsAskedByTheCoordinator when the application commits.
func TestServiceIsAskedByTheCoordinator(t *testing.T) {
	broken := answer{err: errors.New("broken")}
	for name, c := range map[string]struct {
		answers []answer
		err     []error
		reason  string
		state   txn.State
		calls   string
		took    time.Duration
	}{
		"yes": {state: txn.Committed, calls: "prepare b2 hello, commit b2 hello"},
		"read-only": {
			answers: []answer{{vote: txn.VoteReadOnly}},
			state:   txn.Committed, calls: "prepare b2 hello",
		},
		"no": {
			answers: []answer{{txn.VoteNo, errors.New("no such address")}},
			err:     []error{txn.ErrRolledBack, txn.ErrVotedNo}, reason: "no such address",
			state: txn.RolledBack, calls: "prepare b2 hello",
		},
		"no without a reason": {
			answers: []answer{{vote: txn.VoteNo}},
			err:     []error{txn.ErrRolledBack, txn.ErrVotedNo},
			state:   txn.RolledBack, calls: "prepare b2 hello",
		},
		"asked again": {
			answers: []answer{broken, {vote: txn.VoteDelegated}, {vote: txn.VotePrepared}, broken},
			state:   txn.Committed, calls: "prepare b2 hello, prepare b2 hello, prepare b2 hello, commit b2 hello, commit b2 hello",
			took: 3 * txntest.Interval,
		},
		"never answers": {
			answers: []answer{{err: context.DeadlineExceeded}},
			err:     []error{txn.ErrRolledBack, txn.ErrTimedOut},
			state:   txn.RolledBack, calls: "prepare b2 hello, rollback b2 hello", took: 3 * time.Second,
		},
	} {
		t.Run(name, func(t *testing.T) {
			withShop(t, func(t *testing.T, h *shopFixture) {
				s, began := &mail{answers: c.answers}, time.Now()
				h.Service("mail", s.serve)
				err := txn.Run(t.Context(), h.Manager, txn.Options{Timeout: 3 * time.Second}, func(ctx context.Context, tx *txn.Tx) error {
					is(t, h.pay(ctx, tx))
					_, err := tx.Enlist(ctx, txn.Enlistment{Participant: "mail", Payload: []byte("hello")})
					return err
				})
				is(t, err, c.err...)
				if err != nil && !strings.Contains(err.Error(), c.reason) {
					t.Errorf("%v does not say %q", err, c.reason)
				}
				h.ends(t, c.state)
				if took := time.Since(began); took != c.took {
					t.Errorf("took %v, want %v", took, c.took)
				}
				if diff := cmp.Diff(c.calls, strings.Join(s.calls, ", ")); diff != "" {
					t.Errorf("calls (-want +got):\n%s", diff)
				}
			})
		})
	}
}

// TestCommitThatIsNotWaitedFor is in doubt, and goes on.
func TestCommitThatIsNotWaitedFor(t *testing.T) {
	withShop(t, func(t *testing.T, h *shopFixture) {
		s := &mail{answers: []answer{{err: context.DeadlineExceeded}}}
		h.Service("mail", s.serve)
		b, err := h.Begin(t.Context(), txn.Options{Branches: []txn.Enlistment{{Participant: "mail"}}})
		is(t, err)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		out, err := h.Commit(ctx, b.ID, txn.CommitRequest{})
		is(t, err, txn.ErrInDoubt, context.DeadlineExceeded)
		if out.State != txn.Preparing {
			t.Errorf("state %v", out.State)
		}
		h.ends(t, txn.Committed) // the call that hangs ends, and the next one is answered
	})
}

// TestNothingRunsAfterTheTest: a driver that hangs, and a call that waits, end with
// it. A bubble does not end before its goroutines do.
func TestNothingRunsAfterTheTest(t *testing.T) {
	errs := make(chan error, 1)
	synctest.Test(t, func(t *testing.T) {
		m := txntest.New(t)
		m.Service("mail", func(ctx context.Context, _ txntest.Call) (txn.Vote, error) {
			<-ctx.Done()
			return 0, context.Cause(ctx)
		})
		b, err := m.Begin(t.Context(), txn.Options{Branches: []txn.Enlistment{{Participant: "mail"}}})
		is(t, err)
		go func() {
			_, err := m.Commit(context.Background(), b.ID, txn.CommitRequest{})
			errs <- err
		}()
		synctest.Wait()
	})
	is(t, <-errs, txn.ErrInDoubt)
}

// TestTheTestWaitsForWhatRuns, also without a bubble.
func TestTheTestWaitsForWhatRuns(t *testing.T) {
	var over atomic.Bool
	t.Run("a test", func(t *testing.T) {
		m, called := txntest.New(t), make(chan struct{})
		m.Service("mail", func(ctx context.Context, _ txntest.Call) (txn.Vote, error) {
			close(called)
			<-ctx.Done()
			for range 1000 {
				runtime.Gosched()
			}
			over.Store(true)
			return 0, context.Cause(ctx)
		})
		b, err := m.Begin(t.Context(), txn.Options{Branches: []txn.Enlistment{{Participant: "mail"}}})
		is(t, err)
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		_, err = m.Commit(ctx, b.ID, txn.CommitRequest{})
		is(t, err, txn.ErrInDoubt)
		<-called
	})
	if !over.Load() {
		t.Error("the test is over, and the service still runs")
	}
}
