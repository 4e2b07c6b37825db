package txntest_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/txmgr/txmgr/txn"
	"github.com/txmgr/txmgr/txn/txntest"
)

// shopFixture is a coordinator with two participants, in a bubble.
type shopFixture struct {
	*txntest.Manager
	bank, stock *txntest.Database
	paid, sold  int
}

func withShop(t *testing.T, test func(t *testing.T, h *shopFixture)) {
	synctest.Test(t, func(t *testing.T) {
		m := txntest.New(t)
		test(t, &shopFixture{Manager: m, bank: m.Database("bank"), stock: m.Database("stock")})
		if err := m.CheckInvariants(); err != nil {
			t.Error(err)
		}
	})
}

func (h *shopFixture) pay(ctx context.Context, tx *txn.Tx) error {
	return h.bank.Exec(ctx, tx, func() { h.paid++ })
}

func (h *shopFixture) order(ctx context.Context, tx *txn.Tx) error {
	return errors.Join(h.pay(ctx, tx), h.stock.Exec(ctx, tx, func() { h.sold++ }))
}

// followed is the story of a branch that commits as the last one has.
const followed = "exec, prepare, commit"

// ends checks how the last transaction and its branches ended, and that the effects took place
// once or never.
func (h *shopFixture) ends(t *testing.T, want txn.State, stories ...string) {
	t.Helper()
	synctest.Wait() // what is announced behind the work
	all := h.Transactions()
	id := all[len(all)-1].ID
	if out := h.Outcome(id); out.State != want || out.Heuristic != 0 {
		t.Errorf("%v with heuristic %v, want %v", out.State, out.Heuristic, want)
	}
	branch, times := txn.BranchRolledBack, 0
	if want.Commits() {
		branch, times = txn.BranchCommitted, 1
	}
	for i, r := range []*txntest.Database{h.bank, h.stock}[:len(stories)] {
		if got := r.State(id); got != branch || []int{h.paid, h.sold}[i] != times {
			t.Errorf("%s is %v, with its effects %d times", []string{"bank", "stock"}[i], got, []int{h.paid, h.sold}[i])
		}
		got := strings.Join(r.Calls(id), ", ")
		if stories[i] == followed { // by the application, and by the coordinator beside it
			got = strings.Join(slices.DeleteFunc(r.Calls(id), func(call string) bool { return call == "coordinator: commit" }), ", ")
		}
		if diff := cmp.Diff(stories[i], got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", []string{"bank", "stock"}[i], diff)
		}
	}
}

func is(t *testing.T, err error, want ...error) {
	t.Helper()
	if len(want) == 0 && err != nil {
		t.Error(err)
	}
	for _, w := range want {
		if !errors.Is(err, w) {
			t.Errorf("error %v is not %q", err, w)
		}
	}
}

func TestWhatATestCanPlay(t *testing.T) {
	const (
		gone = ": unreachable, as the test wants it"
		lost = ": the answer was lost, as the test wants it"
	)
	for name, c := range map[string]struct {
		options txn.Options
		play    func(h *shopFixture)
		err     []error
		state   txn.State
		bank    string
		stock   string
		atMost  time.Duration
	}{
		"nothing goes wrong": {
			play: func(*shopFixture) {}, state: txn.Committed, bank: "exec, prepare, commit", stock: "exec, prepare, commit",
		},
		"a participant votes no": {
			play: func(h *shopFixture) { h.stock.VoteNo("sold out") },
			err:  []error{txn.ErrRolledBack, txn.ErrVotedNo}, state: txn.RolledBack,
			bank: "exec, prepare, rollback", stock: "exec, prepare",
		},
		"work fails": {
			play: func(h *shopFixture) { h.stock.Fail("exec", txntest.Unreachable) },
			err:  []error{txn.ErrRolledBack}, state: txn.RolledBack,
			bank: "exec, rollback", stock: "exec" + gone + ", rollback",
		},
		"a vote is lost": {
			play: func(h *shopFixture) { h.bank.Fail("prepare", txntest.ResponseLost) },
			err:  []error{txn.ErrRolledBack}, state: txn.RolledBack,
			bank: "exec, prepare" + lost + ", rollback", stock: "exec, prepare, rollback",
		},
		"a participant cannot be reached to commit: the coordinator does it": {
			play: func(h *shopFixture) {
				h.bank.Fail("commit", txntest.Unreachable, txntest.Unreachable, txntest.ResponseLost)
			},
			state: txn.Committed, atMost: 2 * time.Second,
			bank:  "exec, prepare, commit" + gone + ", coordinator: commit" + gone + ", coordinator: commit" + lost + ", coordinator: commit",
			stock: "exec, prepare, commit",
		},
		"a participant commits and the application does not learn of it": {
			play:  func(h *shopFixture) { h.stock.Fail("commit", txntest.ResponseLost) },
			state: txn.Committed, atMost: 2 * time.Second,
			bank: "exec, prepare, commit", stock: "exec, prepare, commit" + lost + ", coordinator: commit",
		},
		"a participant hangs in prepare": {
			play: func(h *shopFixture) { h.stock.Fail("prepare", txntest.Hang) },
			err:  []error{txn.ErrTimedOut}, state: txn.RolledBack, atMost: 31 * time.Second,
		},
		"a participant hangs in commit": {
			play:  func(h *shopFixture) { h.stock.Fail("commit", txntest.Hang) },
			state: txn.Committed, atMost: 12 * time.Second,
		},
		"the coordinator cannot be reached to begin": {
			play: func(h *shopFixture) { h.Fail("begin", txntest.Unreachable) },
			err:  []error{txn.ErrRolledBack, txn.ErrUnavailable},
		},
		"the coordinator cannot be reached to begin before the work": {
			options: txn.Options{AwaitBegin: true},
			play:    func(h *shopFixture) { h.Fail("begin", txntest.Unreachable) },
			err:     []error{txn.ErrUnavailable},
		},
		"the coordinator cannot be reached to enlist": {
			options: txn.Options{AwaitBegin: true},
			play:    func(h *shopFixture) { h.Fail("enlist", txntest.Unreachable) },
			err:     []error{txn.ErrRolledBack, txn.ErrUnavailable}, state: txn.RolledBack,
		},
		"the coordinator cannot be reached to commit": {
			play: func(h *shopFixture) { h.Fail("commit", txntest.Unreachable) },
			err:  []error{txn.ErrRolledBack, txn.ErrUnavailable}, state: txn.RolledBack,
			bank: "exec, prepare, rollback", stock: "exec, prepare, rollback",
		},
		"the decision is not learnt": {
			play: func(h *shopFixture) { h.Fail("commit", txntest.ResponseLost) },
			err:  []error{txn.ErrInDoubt}, state: txn.Committed, atMost: 2 * time.Second,
			bank: "exec, prepare, coordinator: commit", stock: "exec, prepare, coordinator: commit",
		},
		"the coordinator is gone before the decision": {
			play: func(h *shopFixture) {
				h.Fail("commit", txntest.Unreachable)
				h.Fail("rollback", txntest.Unreachable)
			},
			err: []error{txn.ErrInDoubt}, state: txn.RolledBack, atMost: 31 * time.Second,
			bank: "exec, prepare, coordinator: rollback", stock: "exec, prepare, coordinator: rollback",
		},
		"the report is lost": {
			play:  func(h *shopFixture) { h.Fail("done", txntest.Unreachable) },
			state: txn.Committed, atMost: 2 * time.Second,
			bank: "exec, prepare, commit, coordinator: commit", stock: "exec, prepare, commit, coordinator: commit",
		},
	} {
		t.Run(name, func(t *testing.T) {
			withShop(t, func(t *testing.T, h *shopFixture) {
				began := time.Now()
				c.play(h)
				err := txn.Run(t.Context(), h.Manager, c.options, h.order)
				is(t, err, c.err...)
				switch {
				case c.state == 0:
					if n := len(h.Transactions()); n != 0 {
						t.Errorf("%d transactions were begun", n)
					}
				case c.bank == "":
					h.ends(t, c.state)
				default:
					h.ends(t, c.state, c.bank, c.stock)
				}
				if took := time.Since(began); took > c.atMost {
					t.Errorf("took %v", took)
				}
				if left := h.Unfinished(); len(left) != 0 {
					t.Errorf("left undone: %+v", left)
				}
			})
		})
	}
}

// TestOneBranchAlone: it commits in one phase, and how it ended can be proved.
func TestOneBranchAlone(t *testing.T) {
	const gone, lost = ": unreachable, as the test wants it", ": the answer was lost, as the test wants it"
	for name, c := range map[string]struct {
		play  func(h *shopFixture)
		err   []error
		state txn.State
		trace string
		took  time.Duration
	}{
		"commits": {func(*shopFixture) {}, nil, txn.Committed, "exec, commit", 0},
		"refuses": {func(h *shopFixture) { h.bank.VoteNo("no money") }, []error{txn.ErrRolledBack, txn.ErrVotedNo}, txn.RolledBack, "exec, commit", 0},
		"commits, and the answer is lost": {
			func(h *shopFixture) { h.bank.Fail("commit", txntest.ResponseLost) },
			nil, txn.Committed, "exec, commit" + lost + ", coordinator: settle", 0,
		},
		"is not reached": {
			func(h *shopFixture) { h.bank.Fail("commit", txntest.Unreachable) },
			[]error{txn.ErrRolledBack},
			txn.RolledBack, "exec, commit" + gone + ", coordinator: settle", 0,
		},
		"hangs for longer than the application waits": {
			func(h *shopFixture) { h.bank.Fail("commit", txntest.Hang) },
			[]error{txn.ErrRolledBack},
			txn.RolledBack, "exec, coordinator: settle, commit: context deadline exceeded", 10 * time.Second,
		},
	} {
		t.Run(name, func(t *testing.T) {
			withShop(t, func(t *testing.T, h *shopFixture) {
				began := time.Now()
				c.play(h)
				is(t, txn.Run(t.Context(), h.Manager, txn.Options{Timeout: 5 * time.Second}, h.pay), c.err...)
				h.ends(t, c.state, c.trace)
				if took := time.Since(began); took != c.took {
					t.Errorf("took %v, want %v", took, c.took)
				}
			})
		})
	}
}

// TestOneBranchInDoubt: when the decision was delegated by a call, the application does not wait for the deadline when that is
// far, and the coordinator finds the outcome then.
func TestOneBranchInDoubt(t *testing.T) {
	withShop(t, func(t *testing.T, h *shopFixture) {
		h.bank.Fail("commit", txntest.ResponseLost)
		is(t, txn.Run(t.Context(), h.Manager, txn.Options{Timeout: time.Hour, AwaitBegin: true}, h.pay), txn.ErrInDoubt)
		if left := h.Unfinished(); len(left) != 1 || left[0].State != txn.Preparing {
			t.Errorf("undone: %+v", left)
		}
		h.ends(t, txn.Committed, "exec, commit: the answer was lost, as the test wants it, coordinator: settle")
	})
}

// TestReadOnlyBranch: it has ended with its vote.
func TestReadOnlyBranch(t *testing.T) {
	withShop(t, func(t *testing.T, h *shopFixture) {
		is(t, txn.Run(t.Context(), h.Manager, txn.Options{}, func(ctx context.Context, tx *txn.Tx) error {
			return errors.Join(h.pay(ctx, tx), h.stock.Exec(ctx, tx))
		}))
		h.sold++ // as if it had sold, so that ends counts one
		h.ends(t, txn.Committed, "exec, prepare, commit", "exec, prepare")
	})
}

// TestReadOnlyBranchOfARollback: its vote may never have arrived.
func TestReadOnlyBranchOfARollback(t *testing.T) {
	withShop(t, func(t *testing.T, h *shopFixture) {
		h.Fail("commit", txntest.Unreachable)
		h.Fail("rollback", txntest.Unreachable)
		is(t, txn.Run(t.Context(), h.Manager, txn.Options{}, func(ctx context.Context, tx *txn.Tx) error {
			return errors.Join(h.pay(ctx, tx), h.stock.Exec(ctx, tx))
		}), txn.ErrInDoubt)
		h.ends(t, txn.RolledBack, "exec, prepare, coordinator: rollback", "exec, prepare, coordinator: rollback")
	})
}

// TestVoteThatWasALie has a heuristic outcome: the branch had never prepared.
func TestVoteThatWasALie(t *testing.T) {
	withShop(t, func(t *testing.T, h *shopFixture) {
		tx, err := txn.Start(t.Context(), h.Manager, txn.Options{Labels: map[string]string{"of": "lies"}})
		is(t, err)
		is(t, h.pay(t.Context(), tx))
		_, err = h.Commit(t.Context(), tx.ID(), txn.CommitRequest{Votes: []txn.BranchVote{{Branch: 1, Vote: txn.VotePrepared}}})
		is(t, err)
		if out := h.Outcome(tx.ID()); out.State != txn.Committed || out.Heuristic != txn.HeuristicRollback || h.paid != 0 {
			t.Errorf("%+v, paid %d times", out, h.paid)
		}
		if info := h.Transactions()[0]; info.Branches[0].Heuristic != txn.HeuristicRollback || info.Labels["of"] != "lies" {
			t.Errorf("%+v", info)
		}
	})
}

// TestApplicationThatDies leaves its branch to the coordinator, whose rollback ends the
// connection: it cannot work or vote any more.
func TestApplicationThatDies(t *testing.T) {
	withShop(t, func(t *testing.T, h *shopFixture) {
		tx, err := txn.Start(t.Context(), h.Manager, txn.Options{Timeout: time.Second})
		is(t, err)
		is(t, h.order(t.Context(), tx))
		is(t, tx.AwaitBegin(t.Context()))
		h.ends(t, txn.RolledBack, "exec, coordinator: rollback", "exec, coordinator: rollback")
		is(t, h.pay(t.Context(), tx), txn.ErrNotActive)
		err = tx.Commit(t.Context())
		is(t, err, txn.ErrRolledBack, txn.ErrTimedOut)
		if !strings.Contains(err.Error(), "the coordinator has ended the session") {
			t.Error(err)
		}
	})
}

// TestCoordinatorComesFirst: its rollback meets a branch that is enlisted and has no connection
// yet.
func TestCoordinatorComesFirst(t *testing.T) {
	withShop(t, func(t *testing.T, h *shopFixture) {
		tx, err := txn.Start(t.Context(), h.Manager, txn.Options{})
		is(t, err)
		_, err = h.Enlist(t.Context(), tx.ID(), txn.Enlistment{Participant: "bank"})
		is(t, err)
		h.Fail("enlist", txntest.ResponseLost)
		_, err = h.Rollback(t.Context(), tx.ID(), "somebody else's")
		is(t, err)
		h.ends(t, txn.RolledBack, "coordinator: rollback")
		is(t, h.pay(t.Context(), tx), txn.ErrInDoubt)
	})
}

// TestASecondSessionIsRefused: a participant has one branch of a transaction.
func TestASecondSessionIsRefused(t *testing.T) {
	withShop(t, func(t *testing.T, h *shopFixture) {
		is(t, txn.Run(t.Context(), h.Manager, txn.Options{}, func(ctx context.Context, tx *txn.Tx) error {
			is(t, h.pay(ctx, tx))
			attached, err := txn.Attach(ctx, h.Manager, tx.ID())
			is(t, err)
			is(t, h.pay(ctx, attached), txn.ErrConflict)
			return nil
		}))
	})
}

func TestAttachedApplication(t *testing.T) {
	withShop(t, func(t *testing.T, h *shopFixture) {
		is(t, txn.Run(t.Context(), h.Manager, txn.Options{}, func(ctx context.Context, tx *txn.Tx) error {
			txn.Inject(header{}, tx)
			is(t, h.pay(ctx, tx))
			attached, err := txn.RunIn(context.WithoutCancel(ctx), h.Manager, tx.ID(), func(ctx context.Context, tx *txn.Tx) error {
				return h.stock.Exec(ctx, tx, func() { h.sold++ })
			})
			is(t, err)
			go func() { _ = attached.Complete(context.Background()) }()
			return nil
		}))
		synctest.Wait()
		h.ends(t, txn.Committed, "exec, prepare, commit", "exec, prepare, commit")
	})
}

type header struct{}

func (header) Get(string) string  { return "" }
func (header) Set(string, string) {}

// TestLastOfTwoDecides: the first prepares, the second commits, and the first follows how that ended.
func TestLastOfTwoDecides(t *testing.T) {
	const gone, lost = ": unreachable, as the test wants it", ": the answer was lost, as the test wants it"
	for name, c := range map[string]struct {
		play        func(h *shopFixture)
		err         []error
		state       txn.State
		bank, stock string
		took        time.Duration
	}{
		"commits":           {func(*shopFixture) {}, nil, txn.Committed, "exec, prepare, commit", "exec, commit", 0},
		"refuses":           {func(h *shopFixture) { h.stock.VoteNo("none left") }, []error{txn.ErrRolledBack, txn.ErrVotedNo}, txn.RolledBack, "exec, prepare, rollback", "exec, commit", 0},
		"the first refuses": {func(h *shopFixture) { h.bank.VoteNo("no money") }, []error{txn.ErrRolledBack}, txn.RolledBack, "exec, prepare", "exec, rollback", 0},
		"commits, and the answer is lost": {
			func(h *shopFixture) { h.stock.Fail("commit", txntest.ResponseLost) },
			nil, txn.Committed, followed, "exec, commit" + lost + ", coordinator: settle", 0,
		},
		"is not reached": {
			func(h *shopFixture) { h.stock.Fail("commit", txntest.Unreachable) },
			[]error{txn.ErrRolledBack},
			txn.RolledBack, "exec, prepare, rollback", "exec, commit" + gone + ", coordinator: settle", 0,
		},
		"hangs for longer than the application waits": {
			func(h *shopFixture) { h.stock.Fail("commit", txntest.Hang) },
			[]error{txn.ErrRolledBack},
			txn.RolledBack, "exec, prepare, coordinator: rollback, rollback", "exec, coordinator: settle, commit: context deadline exceeded", 10 * time.Second,
		},
	} {
		t.Run(name, func(t *testing.T) {
			withShop(t, func(t *testing.T, h *shopFixture) {
				began := time.Now()
				c.play(h)
				is(t, txn.Run(t.Context(), h.Manager, txn.Options{Timeout: 5 * time.Second, LastDecides: true}, h.order), c.err...)
				h.ends(t, c.state, c.bank, c.stock)
				if took := time.Since(began); took != c.took {
					t.Errorf("took %v, want %v", took, c.took)
				}
			})
		})
	}
}

// TestApplicationThatDiesBeforeTheLastDecides: at the deadline the last one is asked, and both end as it has.
func TestApplicationThatDiesBeforeTheLastDecides(t *testing.T) {
	withShop(t, func(t *testing.T, h *shopFixture) {
		tx, err := txn.Start(t.Context(), h.Manager, txn.Options{Timeout: time.Second, LastDecides: true})
		is(t, err)
		is(t, h.order(t.Context(), tx))
		is(t, tx.AwaitBegin(t.Context()))
		<-time.After(time.Minute)
		h.ends(t, txn.RolledBack, "exec, coordinator: rollback", "exec, coordinator: settle")
	})
}
