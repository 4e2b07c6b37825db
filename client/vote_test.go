package client_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/txmgr/txmgr/client"
	"github.com/txmgr/txmgr/server"
	"github.com/txmgr/txmgr/server/servertest"
	"github.com/txmgr/txmgr/txn"
	"github.com/txmgr/txmgr/txn/admin"
)

// The same for the calls that replace a commit: repeated until they are answered, and the
// answer is that of the first try.
func TestLostAnswersToVotes(t *testing.T) {
	eachTransport(t, func(t *testing.T, cfg client.Config) {
		ln := listen(t, "127.0.0.1:0")
		l := &lossy{Fake: servertest.New(), ln: ln}
		t.Cleanup(serveOn(t, ln, l, server.Config{}))
		cfg.Address = "http://" + ln.Addr().String()
		c := open(t, cfg)
		for name, call := range map[string]func(txn.ID) (txn.Outcome, error){
			"vote": func(id txn.ID) (txn.Outcome, error) {
				return c.Vote(t.Context(), id, txn.Votes{Votes: []txn.BranchVote{{Branch: 1, Vote: txn.VoteNo}}, Reason: "no funds"})
			},
			"delegate": func(id txn.ID) (txn.Outcome, error) { return c.Delegate(t.Context(), id, 1) },
		} {
			b, err := c.Begin(t.Context(), txn.Options{Branches: []txn.Enlistment{{Participant: "bank"}}})
			if err != nil {
				t.Fatal(err)
			}
			want := map[string]txn.Outcome{"vote": {State: txn.RolledBack, Cause: txn.CauseVoteNo}, "delegate": {State: txn.Preparing}}[name]
			l.seen.Store(0)
			l.times.Store(2)
			if o, err := call(b.ID); err != nil || o != want || l.seen.Load() != 3 {
				t.Errorf("%s: %v, %v after %d tries", name, o, err, l.seen.Load())
			}
		}
	})
}

// Invariant 3 for votes and delegations: in doubt when they may have arrived, and
// not when they surely have not.
func TestVotesInDoubt(t *testing.T) {
	eachTransport(t, func(t *testing.T, cfg client.Config) {
		calls := func(c *client.Client, id txn.ID, check func(op string, err error)) {
			_, err := c.Vote(soon(t, 300*time.Millisecond), id, txn.Votes{Votes: []txn.BranchVote{{Branch: 1, Vote: txn.VotePrepared}}})
			check("vote", err)
			_, err = c.Delegate(soon(t, 300*time.Millisecond), id, 1)
			check("delegate", err)
		}
		nobody := cfg
		nobody.Address = "http://" + freePort(t)
		calls(open(t, nobody), newID(1), func(op string, err error) {
			if !errors.Is(err, txn.ErrUnavailable) || errors.Is(err, txn.ErrInDoubt) {
				t.Errorf("%s, never sent: %v", op, err)
			}
		})
		fake := servertest.New()
		fake.Before = func(ctx context.Context, op string, _ txn.ID) error {
			if op == "begin" {
				return nil
			}
			<-ctx.Done()
			return ctx.Err()
		}
		ln := listen(t, "127.0.0.1:0")
		t.Cleanup(serveOn(t, ln, fake, server.Config{CallTimeout: time.Second}))
		cfg.Address = "http://" + ln.Addr().String()
		calls(open(t, cfg), newID(1), func(op string, err error) {
			e := (*txn.Error)(nil)
			if !errors.Is(err, txn.ErrInDoubt) || !errors.Is(err, context.DeadlineExceeded) || !errors.As(err, &e) || e.ID != newID(1) {
				t.Errorf("%s, no answer: %v", op, err)
			}
		})
	})
}

// Calls that fan out to participants have a timeout of their own, in the client and in the server.
func TestFanoutTimeout(t *testing.T) {
	fake := servertest.New()
	left := make(chan time.Duration, 1)
	fake.Before = func(ctx context.Context, _ string, _ txn.ID) error {
		until, _ := ctx.Deadline()
		left <- time.Until(until)
		return nil
	}
	c := open(t, client.Config{Address: serve(t, fake), RequestTimeout: 5 * time.Second, FanoutTimeout: 100 * time.Second})
	id := newID(1)
	for name, call := range map[string]func() error{
		"scan":             func() error { _, err := c.Admin().Scan(t.Context(), "", false); return err },
		"explain":          func() error { _, err := c.Admin().Explain(t.Context(), id); return err },
		"retry":            func() error { return c.Admin().Retry(t.Context(), txn.ID{}) },
		"resolve":          func() error { _, err := c.Admin().Resolve(t.Context(), id, admin.Resolution{Reason: "x"}); return err },
		"doctor":           func() error { _, err := c.Admin().Doctor(t.Context(), ""); return err },
		"test participant": func() error { return c.Admin().TestParticipant(t.Context(), "bank") },
		"doubts":           func() error { _, err := c.Admin().InDoubts(t.Context()); return err },
		"audit":            func() error { _, err := c.Admin().Audit(t.Context(), admin.AuditFilter{}); return err },
	} {
		if err := call(); err != nil && !errors.Is(err, txn.ErrNotFound) {
			t.Errorf("%s: %v", name, err)
		}
		want := 100 * time.Second
		if name == "doubts" || name == "audit" {
			want = 5 * time.Second
		}
		if got := <-left; got > want || got < want-2*time.Second {
			t.Errorf("%s: %v left, want about %v", name, got, want)
		}
	}
}

// Another process works in the transaction and reports its vote; the application that began
// it commits.
func TestAttach(t *testing.T) {
	eachTransport(t, func(t *testing.T, cfg client.Config) {
		cfg.Address = serve(t, servertest.New())
		c := open(t, cfg)
		b, err := c.Begin(t.Context(), txn.Options{Timeout: time.Minute})
		if err != nil {
			t.Fatal(err)
		}
		tx, err := txn.Attach(t.Context(), c, b.ID)
		if err != nil || tx.ID() != b.ID {
			t.Fatalf("%v, %v", tx, err)
		}
		if err := tx.Rollback(t.Context(), "not today"); err != nil {
			t.Errorf("rollback: %v", err)
		}
		if i, err := c.Get(t.Context(), b.ID); err != nil || i.State != txn.RolledBack {
			t.Errorf("%v, %v", i.State, err)
		}
		if _, err := txn.Attach(t.Context(), c, b.ID); !errors.Is(err, txn.ErrRolledBack) {
			t.Errorf("afterwards: %v", err)
		}
		if _, err := txn.Attach(t.Context(), c, newID(9)); !errors.Is(err, txn.ErrNotFound) {
			t.Errorf("unknown: %v", err)
		}
	})
}
