package node

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/txmgr/txmgr/participant"
	"github.com/txmgr/txmgr/txn"
)

// forms are Commit and that of Async, which return the same.
var forms = map[string]func(context.Context, *Node, txn.ID) (txn.Outcome, error){
	"Commit": func(ctx context.Context, n *Node, id txn.ID) (txn.Outcome, error) {
		return n.Commit(ctx, id, txn.CommitRequest{})
	},
	"CommitThen": func(ctx context.Context, n *Node, id txn.ID) (o txn.Outcome, err error) {
		answers := make(chan error, 2)
		n.Async().Commit(ctx, id, txn.CommitRequest{}, func(got txn.Outcome, err error) {
			o = got
			answers <- err
		})
		err = <-answers
		synctest.Wait()
		if len(answers) > 0 {
			return o, fmt.Errorf("answered twice: %w and %w", err, <-answers)
		}
		return o, err
	},
}

// TestCommitWithAndWithoutAGoroutine: however the wait for a vote ends, both forms return the same
// result at the same moment, and leave no request behind.
func TestCommitWithAndWithoutAGoroutine(t *testing.T) {
	within := func(d time.Duration) func(context.Context, *Node, txn.ID) (context.Context, context.CancelFunc) {
		return func(ctx context.Context, _ *Node, _ txn.ID) (context.Context, context.CancelFunc) {
			return context.WithTimeout(ctx, d)
		}
	}
	// after does something while the commit waits.
	after := func(d time.Duration, do func(*Node, txn.ID, context.CancelCauseFunc)) func(context.Context, *Node, txn.ID) (context.Context, context.CancelFunc) {
		return func(ctx context.Context, n *Node, id txn.ID) (context.Context, context.CancelFunc) {
			ctx, cancel := context.WithCancelCause(ctx)
			time.AfterFunc(d, func() { do(n, id, cancel) })
			return ctx, func() { cancel(nil) }
		}
	}
	gone := errors.New("the caller is gone")
	for name, c := range map[string]struct {
		shop participant.Participant
		call func(context.Context, *Node, txn.ID) (context.Context, context.CancelFunc)
		took time.Duration
		want txn.State
		errs []any
	}{
		"a yes":        {yesAfter(3 * time.Second), within(time.Minute), 3 * time.Second, txn.Committing, nil},
		"a no":         {refuses("sold out"), within(time.Minute), 0, txn.RolledBack, []any{txn.ErrRolledBack, txn.ErrVotedNo, "shop: sold out"}},
		"its deadline": {hangs(), within(time.Hour), 20 * time.Second, txn.RollingBack, []any{txn.ErrRolledBack, txn.ErrTimedOut}},
		"the call's":   {hangs(), within(4 * time.Second), 4 * time.Second, txn.Preparing, []any{txn.ErrInDoubt, context.DeadlineExceeded, "deadline exceeded while the coordinator collects"}},
		"over before":  {hangs(), within(0), 0, 0, []any{txn.ErrUnavailable, context.DeadlineExceeded, "before the command was proposed"}},
		"the caller":   {hangs(), after(2*time.Second, func(_ *Node, _ txn.ID, end context.CancelCauseFunc) { end(gone) }), 2 * time.Second, txn.Preparing, []any{txn.ErrInDoubt, gone}},
		"a rollback": {hangs(), after(2*time.Second, func(n *Node, id txn.ID, _ context.CancelCauseFunc) {
			_, _ = n.Rollback(context.Background(), id, "why not")
		}), 2 * time.Second, txn.RollingBack, []any{txn.ErrRolledBack, "why not"}},
		"the node is closed": {hangs(), after(2*time.Second, func(n *Node, _ txn.ID, _ context.CancelCauseFunc) { _ = n.Close() }), 2 * time.Second, txn.Preparing, []any{txn.ErrInDoubt}},
		"the log has failed": {hangs(), after(2*time.Second, func(n *Node, _ txn.ID, _ context.CancelCauseFunc) { n.fail(errors.New("disk on fire")) }), 2 * time.Second, 0, []any{txn.ErrInDoubt, "disk on fire"}},
	} {
		for form, commit := range forms {
			t.Run(name+"/"+form, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					n := open(t, t.TempDir(), slow, with(participantMap{"shop": c.shop}), func(c *Config) { c.OnFailure = func(error) {} })
					b := beginAt(t, n, 20*time.Second, "shop")
					ctx, cancel := c.call(t.Context(), n, b.ID)
					defer cancel()
					start := time.Now()
					o, err := commit(ctx, n, b.ID)
					if took := time.Since(start); took < c.took || took > c.took+110*time.Millisecond {
						t.Errorf("it took %v, not %v", took, c.took)
					}
					if o.State != c.want && !(o.State.Finished() && c.want.Decided()) {
						t.Errorf("the state is %v, not %v", o.State, c.want)
					}
					if c.errs == nil && err != nil {
						t.Error(err)
					} else if c.errs != nil {
						wantErr(t, "commit", err, c.errs...)
					}
					if left := n.notifier.Waiting(); left != 0 {
						t.Errorf("%d requests are left", left)
					}
				})
			})
		}
	}
}

// TestWhoWaitsLearnsThatAnotherLeads: a partitioned node gives up the leadership, and its waiting
// calls return that.
func TestWhoWaitsLearnsThatAnotherLeads(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		shop := hangs()
		c := openReplicas(t, 3, with(participantMap{"shop": shop}))
		defer c.close()
		l := c.leader()
		n := c.nodes[l]
		var waits []chan error
		for _, commit := range forms {
			b := beginAt(t, n, time.Hour, "shop")
			waited, committed := make(chan error, 1), make(chan error, 1)
			waits = append(waits, waited, committed)
			go func() {
				_, err := n.Wait(context.Background(), b.ID, txn.UntilFinished)
				waited <- err
			}()
			go func() {
				_, err := commit(context.Background(), n, b.ID)
				committed <- err
			}()
			pass(time.Second)
		}
		if parked := n.notifier.Waiting(); parked != len(waits) {
			t.Fatalf("%d are parked", parked)
		}
		c.link(l, false)
		for i, w := range waits {
			want := txn.ErrUnavailable
			if i%2 == 1 {
				want = txn.ErrInDoubt
			}
			if err := <-w; !errors.Is(err, want) || !strings.Contains(err.Error(), "does not lead") {
				t.Errorf("%d: %v", i, err)
			}
		}
		c.link(l, true)
		c.leader()
	})
}
