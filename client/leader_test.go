package client_test

import (
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/txmgr/txmgr/client"
	"github.com/txmgr/txmgr/internal/waittest"
	"github.com/txmgr/txmgr/txn"
	"github.com/txmgr/txmgr/txn/admin"
)

const (
	commitPath = "TransactionService/Commit"
	pipePath   = "TransactionService/Pipeline"
	getPath    = "TransactionService/Get"
)

// One call survives two leaders, each of which crashes after it has applied the call and
// before it answers. The server that is called first is a follower.
func TestLeadersDieDuringOneCall(t *testing.T) {
	prepared := []txn.BranchVote{{Branch: 1, Vote: txn.VotePrepared}}
	calls := map[string]struct {
		with []txn.Enlistment
		call func(*testing.T, *client.Client, txn.ID) (txn.State, error)
		want txn.State
	}{
		"begin": {nil, func(t *testing.T, c *client.Client, _ txn.ID) (txn.State, error) {
			b, err := c.Begin(t.Context(), txn.Options{ID: newID(2), Name: "once"})
			if b.ID != newID(2) {
				t.Errorf("begun as %v", b.ID)
			}
			return txn.Active, err
		}, txn.Active},
		"commit": {nil, func(t *testing.T, c *client.Client, id txn.ID) (txn.State, error) {
			o, err := c.Commit(t.Context(), id, txn.CommitRequest{})
			return o.State, err
		}, txn.Committed},
		"vote": {[]txn.Enlistment{{Participant: "bank"}}, func(t *testing.T, c *client.Client, id txn.ID) (txn.State, error) {
			o, err := c.Vote(t.Context(), id, txn.Votes{Votes: prepared})
			return o.State, err
		}, txn.Active},
		"delegate": {[]txn.Enlistment{{Participant: "bank"}}, func(t *testing.T, c *client.Client, id txn.ID) (txn.State, error) {
			o, err := c.Delegate(t.Context(), id, 1)
			return o.State, err
		}, txn.Preparing},
	}
	eachTransport(t, func(t *testing.T, cfg client.Config) {
		for name, x := range calls {
			t.Run(name, func(t *testing.T) {
				f := newTestCluster(t, 3)
				f.leader.Store(1)
				cfg.Address = f.address(0, 1, 2)
				c := open(t, cfg)
				if _, err := f.Fake.Begin(t.Context(), txn.Options{ID: newID(1), Branches: x.with}); err != nil {
					t.Fatal(err)
				}
				f.deaths.Store(2)
				state, err := x.call(t, c, newID(1))
				if err != nil {
					t.Fatal(err)
				}
				if n := f.applied.Load(); n != 3 {
					t.Errorf("it arrived %d times, want 3", n)
				}
				if state != x.want {
					t.Errorf("%v, want %v", state, x.want)
				}
				if all, err := f.List(t.Context(), admin.Filter{Prefix: "tx_"}); err != nil || len(all) > 2 {
					t.Errorf("%d transactions, %v", len(all), err)
				}
			})
		}
	})
}

// A client whose call a follower forwarded goes to the leader from then on, and follows a
// change of leader without a crash. No call fails.
func TestFollowsTheLeader(t *testing.T) {
	eachTransport(t, func(t *testing.T, cfg client.Config) {
		path := pipePath
		if cfg.Unary {
			path = commitPath
		}
		f := newTestCluster(t, 3)
		f.leader.Store(2)
		cfg.Address = f.address(0, 1, 2)
		c := open(t, cfg)
		var done, failed atomic.Int64
		quit := make(chan struct{})
		var wg sync.WaitGroup
		for range 4 {
			wg.Go(func() {
				for {
					select {
					case <-quit:
						return
					default:
					}
					b, err := c.Begin(t.Context(), txn.Options{})
					if err == nil {
						_, err = c.Commit(t.Context(), b.ID, txn.CommitRequest{})
					}
					if err != nil {
						failed.Add(1)
						t.Error(err)
						return
					}
					done.Add(1)
				}
			})
		}
		for i, leader := range []int32{2, 1, 0, 2, 1} {
			m, n := f.members[leader], done.Load()
			was := 0 // the client may have found the first leader by now
			if i > 0 {
				was = m.direct(path)
			}
			f.leader.Store(leader)
			waittest.Until(t, "calls at the leader itself", func() bool {
				return m.direct(path) > was && done.Load() > n+20 || failed.Load() > 0
			})
		}
		close(quit)
		wg.Wait()
		if s, err := f.Fake.Status(t.Context()); err != nil || int64(s.Committed) != done.Load() {
			t.Errorf("%d committed, %d told so, %v", s.Committed, done.Load(), err)
		}
	})
}

// A leader whose URL is not among the addresses is reached through the others.
func TestLeaderElsewhere(t *testing.T) {
	eachTransport(t, func(t *testing.T, cfg client.Config) {
		f := newTestCluster(t, 2)
		f.leader.Store(1)
		cfg.Address = f.address(0)
		c := open(t, cfg)
		for range 3 {
			b, err := c.Begin(t.Context(), txn.Options{})
			if err == nil {
				_, err = c.Commit(t.Context(), b.ID, txn.CommitRequest{})
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		if path := pipePath; f.members[1].direct("") > 0 || f.members[0].direct(path)+f.members[0].direct(commitPath) == 0 {
			t.Errorf("%+v", f.members[1].requests())
		}
		// It does not lead any more, and its own Pipe is useless: a new Pipe is forwarded.
		f.leader.Store(0)
		b, err := c.Begin(t.Context(), txn.Options{})
		if err == nil {
			_, err = c.Commit(t.Context(), b.ID, txn.CommitRequest{})
		}
		if err != nil {
			t.Error(err)
		}
	})
}

// Without a leader calls wait for one until their deadline.
func TestElection(t *testing.T) {
	eachTransport(t, func(t *testing.T, cfg client.Config) {
		f := newTestCluster(t, 2)
		f.leader.Store(-1)
		cfg.Address = f.address(0, 1)
		c := open(t, cfg)
		if _, err := c.Commit(soon(t, 150*time.Millisecond), newID(1), txn.CommitRequest{}); !errors.Is(err, txn.ErrUnavailable) || errors.Is(err, txn.ErrInDoubt) {
			t.Errorf("%v", err)
		}
		began := make(chan error, 1)
		go func() {
			_, err := c.Begin(t.Context(), txn.Options{})
			began <- err
		}()
		waittest.Until(t, "tries at both", func() bool { return f.members[0].direct("") > 1 && f.members[1].direct("") > 1 })
		f.leader.Store(1)
		if err := <-began; err != nil {
			t.Error(err)
		}
	})
}

// Stale reads are answered by the server that is called, whichever node leads.
func TestStale(t *testing.T) {
	eachTransport(t, func(t *testing.T, cfg client.Config) {
		f := newTestCluster(t, 2)
		f.leader.Store(1)
		cfg.Address = f.address(0, 1)
		c := open(t, cfg)
		if _, err := f.Fake.Begin(t.Context(), txn.Options{ID: newID(1), Name: "seen"}); err != nil {
			t.Fatal(err)
		}
		ctx := txn.AllowStale(t.Context())
		for range 3 {
			if i, err := c.Get(ctx, newID(1)); err != nil || i.Name != "seen" {
				t.Errorf("%+v, %v", i, err)
			}
			if all, err := c.List(ctx, admin.Filter{}); err != nil || len(all) != 1 {
				t.Errorf("%v, %v", all, err)
			}
		}
		if n, all := f.members[0].direct(getPath), len(f.members[1].requests()); n != 3 || all != 0 {
			t.Errorf("%d calls at the follower, %d at the leader", n, all)
		}
		for _, s := range f.members[0].requests() {
			if s.stale != "true" {
				t.Errorf("%+v", s)
			}
		}
		if _, err := c.Get(t.Context(), newID(1)); err != nil || len(f.members[1].requests()) == 0 {
			t.Errorf("a call that wants to know better did not come to the leader: %v", err)
		}
	})
}
