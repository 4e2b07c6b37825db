package client_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/txmgr/txmgr/client"
	"github.com/txmgr/txmgr/server/servertest"
	"github.com/txmgr/txmgr/txn"
)

// recorder records the calls that reach a coordinator.
type recorder struct {
	mu    sync.Mutex
	calls []string
}

func record(f *servertest.Fake) *recorder {
	r := new(recorder)
	f.Before = func(_ context.Context, op string, _ txn.ID) error {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.calls = append(r.calls, op)
		return nil
	}
	return r
}

// take returns the calls since it was called last.
func (r *recorder) take() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	calls := strings.Join(r.calls, ", ")
	r.calls = nil
	return calls
}

func transfer(ctx context.Context, c txn.Manager, o txn.Options) error {
	return txn.Run(ctx, c, o, func(ctx context.Context, tx *txn.Tx) error {
		for _, name := range []string{"bank", "stock"} {
			if _, err := txn.Join(ctx, tx, name, func(ctx context.Context, enlist txn.EnlistFunc) (*voter, error) {
				_, err := enlist(ctx, "", nil)
				return &voter{vote: txn.VotePrepared}, err
			}); err != nil {
				return err
			}
		}
		return nil
	})
}

// TestCallsOfATransaction: the first transaction of a client is begun by calls, from whose answers
// it learns to name the next; that one costs a begin with its branches, the commit and a report.
// A transaction in a session is named in it.
func TestCallsOfATransaction(t *testing.T) {
	eachTransport(t, func(t *testing.T, cfg client.Config) {
		f := servertest.New()
		r := record(f)
		cfg.Address = serve(t, f)
		c := open(t, cfg)
		o := txn.Options{Name: t.Name()}
		await := func(want ...string) {
			t.Helper()
			got := ""
			for deadline := time.After(10 * time.Second); ; {
				if more := r.take(); more != "" {
					got = strings.TrimPrefix(got+", "+more, ", ")
				}
				if strings.HasSuffix(got, "done") {
					break
				}
				select {
				case <-deadline:
					t.Fatalf("the calls are %s", got)
				case <-time.After(time.Millisecond):
				}
			}
			if !slices.Contains(want, got) {
				t.Errorf("the calls are %s; want %s", got, strings.Join(want, " or "))
			}
		}
		const byCalls = "begin, enlist, enlist, commit, done"
		if err := transfer(t.Context(), c, o); err != nil {
			t.Fatal(err)
		}
		await(byCalls)
		for range 3 {
			if err := transfer(t.Context(), c, o); err != nil {
				t.Fatal(err)
			}
			await("begin, commit, done", "begin, enlist, commit, done") // the second where the branches are far apart
		}
		o.AwaitBegin = true
		if err := transfer(t.Context(), c, o); err != nil {
			t.Fatal(err)
		}
		await(byCalls)

		s := openSession(t, c, time.Minute)
		n, ok := c.NameTransaction(client.WithSession(t.Context(), s), txn.Options{})
		if !ok || n.Options.Session != s.ID() {
			t.Errorf("named %v, in session %v; want %v", ok, n.Options.Session, s.ID())
		}
	})
}

// TestRefusalOfANamedTransaction: the coordinator's error of the begin is that of the commit, which
// is a rollback.
func TestRefusalOfANamedTransaction(t *testing.T) {
	eachTransport(t, func(t *testing.T, cfg client.Config) {
		f := servertest.New()
		cfg.Address = serve(t, f)
		c := open(t, cfg)
		if err := transfer(t.Context(), c, txn.Options{}); err != nil {
			t.Fatal(err)
		}
		var mu sync.Mutex
		var calls []string
		f.Before = func(_ context.Context, op string, id txn.ID) error {
			mu.Lock()
			defer mu.Unlock()
			calls = append(calls, op)
			if op == "begin" {
				return &txn.Error{Op: op, ID: id, Err: txn.ErrConflict, Detail: "refused"}
			}
			return nil
		}
		err := transfer(t.Context(), c, txn.Options{})
		if !errors.Is(err, txn.ErrRolledBack) || !errors.Is(err, txn.ErrConflict) || !strings.Contains(err.Error(), "refused") {
			t.Errorf("%v; want that it is rolled back, and why", err)
		}
		mu.Lock()
		defer mu.Unlock()
		if slices.Contains(calls, "commit") || slices.Contains(calls, "rollback") {
			t.Errorf("the calls are %v", calls)
		}
	})
}

// TestCloseSendsReports: the report of a transaction that has just ended is sent by Close.
func TestCloseSendsReports(t *testing.T) {
	f := servertest.New()
	r := record(f)
	c := open(t, client.Config{Address: serve(t, f)})
	for range 20 {
		b, err := c.Begin(t.Context(), txn.Options{Branches: []txn.Enlistment{{Participant: "bank"}}})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := c.Commit(t.Context(), b.ID, txn.CommitRequest{Votes: []txn.BranchVote{{Branch: 1, Vote: txn.VotePrepared}}, ClientCompletes: true}); err != nil {
			t.Fatal(err)
		}
		if err := c.ReportCompletion(txn.AllowDelay(t.Context()), b.ID, txn.CompletionReport{Branch: 1, State: txn.BranchCommitted}); err != nil {
			t.Fatal(err)
		}
	}
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(r.take(), "done"); n != 20 {
		t.Errorf("%d reports have arrived, want 20", n)
	}
	if err := c.ReportCompletion(txn.AllowDelay(t.Context()), newID(1)); err != nil {
		t.Errorf("a report that need not arrive, after Close: %v", err)
	}
}
