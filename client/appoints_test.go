package client_test

import (
	"context"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/txmgr/txmgr/client"
	"github.com/txmgr/txmgr/internal/waittest"
	"github.com/txmgr/txmgr/server/servertest"
	"github.com/txmgr/txmgr/txn"
)

// release is a coordinator of the present release, or of one before branches could be appointed: that ignores
// what it does not know of a begin, and its answer does not say that it knows it.
type release struct {
	*servertest.Fake

	old       atomic.Bool
	appointed atomic.Int32 // begins that have appointed a branch
}

func (r *release) Begin(ctx context.Context, o txn.Options) (txn.BeginResult, error) {
	for _, e := range o.Branches {
		if e.Decides {
			r.appointed.Add(1)
		}
	}
	b, err := r.Fake.Begin(ctx, o)
	b.Appoints = b.Appoints && !r.old.Load()
	return b, err
}

// prover can commit in one phase, and prove that.
type prover struct{ voter }

func (*prover) OnePhase() bool { return true }

func (*prover) CommitOnePhase(context.Context) (txn.BranchState, error) {
	return txn.BranchCommitted, nil
}

// TestNoBranchIsAppointedAtAnOldCoordinator: a coordinator that does not know of appointments would roll back, at the deadline,
// a branch that has committed without it. So a branch is appointed only after an answer that says that it may be, also one
// that another node has forwarded; elsewhere the decision is delegated, which is waited for.
func TestNoBranchIsAppointedAtAnOldCoordinator(t *testing.T) {
	eachTransport(t, func(t *testing.T, cfg client.Config) {
		r := &release{Fake: servertest.New()}
		r.old.Store(true)
		calls := record(r.Fake)
		follower := servertest.New() // of the present release
		follower.SetLeader(serve(t, r), false)
		cfg.Address = serve(t, follower)
		c := open(t, cfg)
		withdraw := func() string {
			t.Helper()
			calls.take()
			err := txn.Run(t.Context(), c, txn.Options{Name: t.Name()}, func(ctx context.Context, tx *txn.Tx) error {
				_, err := txn.Join(ctx, tx, "bank", func(ctx context.Context, enlist txn.EnlistFunc) (*prover, error) {
					_, err := enlist(ctx, "", nil)
					return &prover{voter{vote: txn.VotePrepared}}, err
				})
				return err
			})
			if err != nil {
				t.Fatal(err)
			}
			got := ""
			waittest.Until(t, "the branch's end is reported", func() bool {
				if more := calls.take(); more != "" {
					got = strings.TrimPrefix(got+", "+more, ", ")
				}
				return strings.HasSuffix(got, "done")
			})
			return got
		}
		want := func(calls string, appointed int32) {
			t.Helper()
			if got := withdraw(); got != calls {
				t.Errorf("the calls are %s; want %s", got, calls)
			}
			if got := r.appointed.Swap(0); got != appointed {
				t.Errorf("%d branches were appointed; want %d", got, appointed)
			}
		}
		want("begin, enlist, delegate, done", 0) // by calls, from which the client learns
		for range 2 {
			want("begin, delegate, done", 0)
		}
		r.old.Store(false)
		want("begin, delegate, done", 0) // whose answer says so
		for range 2 {
			want("begin, done", 1)
		}
	})
}
