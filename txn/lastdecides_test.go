package txn_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/txmgr/txmgr/txn"
)

// shopThenBank joins two participants, of which the second, with the given end of its one-phase commit, may decide.
func (m *namingManager) shopThenBank(ctx context.Context, tx *txn.Tx, end txn.BranchState) error {
	_, err := m.join(ctx, tx, "shop")
	synctest.Wait()
	return errors.Join(err, m.solo(ctx, tx, end))
}

var lastDecides = txn.Options{Name: "order", LastDecides: true}

// TestLastDecides: the coordinator has all branches, and who decides, before the others prepare; the last one commits when
// they have, and they follow its end. Whatever is known of that end is what the caller is told.
func TestLastDecides(t *testing.T) {
	const prefix = "begin shop=session-of-shop\nbegin answered\nenlist bank=session decides\nenlist answered\n"
	for name, c := range map[string]struct {
		stage *fakeManager
		end   txn.BranchState
		want  []error // nil: commit succeeds
		not   []error
		trace string
	}{
		"committed": {
			end:   txn.BranchCommitted,
			trace: "shop prepares\nbank commits alone\nbank releases\nshop commits\nshop releases\ndone b1=committed b2=committed",
		},
		"committed, and another cannot follow": {
			end: txn.BranchCommitted, stage: &fakeManager{errs: map[string]error{"shop commits": errOut}},
			trace: "shop prepares\nbank commits alone\nbank releases\nshop commits\nshop releases\ndone b2=committed",
		},
		"refused by the last one": {
			end: txn.BranchRolledBack, want: []error{txn.ErrRolledBack, txn.ErrVotedNo, errOut},
			trace: "shop prepares\nbank commits alone\nbank releases\nshop rolls back\nshop releases\ndone b1=rolled-back b2=rolled-back",
		},
		"another votes no": {
			end: txn.BranchCommitted, stage: &fakeManager{votes: map[string]txn.Vote{"shop": txn.VoteNo}, errs: map[string]error{"shop prepares": errOut}},
			want:  []error{txn.ErrRolledBack, errOut},
			trace: "shop prepares\nbank rolls back\nbank releases\nshop releases\nvote b2=no own=false: shop: out of order\ndone b1=rolled-back",
		},
		"another was read only": {
			end: txn.BranchCommitted, stage: &fakeManager{votes: map[string]txn.Vote{"shop": txn.VoteReadOnly}},
			trace: "shop prepares\nenlist bank=session revokes\nenlist answered\nbank prepares\ncommit b1=read-only b2=prepared own=true\n" +
				"bank commits\nbank releases\nshop releases\ndone b2=committed",
		},
		"the last one cannot prove its end": {
			end:   0,
			trace: "bank prepares\nshop prepares\ncommit b1=prepared b2=prepared own=true\nbank commits\nbank releases\nshop commits\nshop releases\ndone b1=committed b2=committed",
		},
		"its answer is lost, and it was committed": {
			end: unknownEnd, stage: &fakeManager{info: txn.Info{ID: theID, State: txn.Committing}},
			trace: "shop prepares\nbank commits alone\nbank releases\nrollback: the answer to its one-phase commit was lost\nwait\nshop commits\nshop releases\ndone b1=committed",
		},
		"its answer is lost, and it was rolled back": {
			end: unknownEnd, stage: &fakeManager{info: txn.Info{ID: theID, State: txn.RollingBack, Cause: txn.CauseClient}},
			want:  []error{txn.ErrRolledBack, errOut},
			trace: "shop prepares\nbank commits alone\nbank releases\nrollback: the answer to its one-phase commit was lost\nwait\nshop rolls back\nshop releases\ndone b1=rolled-back",
		},
		"its answer is lost, and nobody knows": {
			end: unknownEnd, want: []error{txn.ErrInDoubt, errOut}, not: []error{txn.ErrRolledBack},
			trace: "shop prepares\nbank commits alone\nbank releases\nrollback: the answer to its one-phase commit was lost\nwait\nshop releases",
		},
		"its answer is lost, and nobody can ever know": {
			end: unknownEnd, stage: &fakeManager{info: txn.Info{ID: theID, State: txn.RollingBack, Cause: txn.CauseClient, Heuristic: txn.HeuristicHazard}},
			want: []error{txn.ErrHeuristic, errOut}, not: []error{txn.ErrRolledBack},
			trace: "shop prepares\nbank commits alone\nbank releases\nrollback: the answer to its one-phase commit was lost\nwait\nshop rolls back\nshop releases\ndone b1=rolled-back",
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m := newNamingManager()
				if c.stage != nil {
					m.fakeManager = c.stage
				}
				err := txn.Run(t.Context(), m, lastDecides, func(ctx context.Context, tx *txn.Tx) error { return m.shopThenBank(ctx, tx, c.end) })
				if c.want == nil && err != nil {
					t.Error(err)
				} else if c.want != nil {
					checkError(t, err, c.want, c.not)
				}
				want := prefix
				if c.end == 0 {
					want = "begin shop=session-of-shop\nbegin answered\nenlist bank=session\nenlist answered\n"
				}
				if got := m.told(); got != want+c.trace {
					t.Errorf("calls:\n%s\nwant:\n%s", got, want+c.trace)
				}
				at, follows := slices.Index(m.trace, "bank commits alone"), slices.Index(m.trace, "shop commits") // told sorts them
				if at >= 0 && follows >= 0 && follows < at {
					t.Errorf("the other one has committed before: %q", m.trace)
				}
			})
		})
	}
}

// TestAppointmentMoves: from the first branch, as long as that is the only one, to the last. Nothing prepares, and nothing
// commits in one phase, before the coordinator has answered.
func TestAppointmentMoves(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newNamingManager()
		m.delay = time.Second
		err := txn.Run(t.Context(), m, lastDecides, func(ctx context.Context, tx *txn.Tx) error {
			for _, name := range []string{"bank", "shop", "mail"} {
				if err := m.soleAt(ctx, tx, name); err != nil {
					return err
				}
				<-time.After(2 * m.delay) // it is known
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		m.mu.Lock()
		got := strings.Join(m.trace, "\n")
		m.mu.Unlock()
		first := "begin bank= decides\nbegin answered\nenlist shop= decides revokes\nenlist answered\nenlist mail= decides revokes\nenlist answered\n"
		if len(got) < len(first) || got[:len(first)] != first {
			t.Errorf("calls:\n%s\nwant them to begin with:\n%s", got, first)
		}
	})
}

// soleAt joins a participant whose branch can commit in one phase.
func (m *namingManager) soleAt(ctx context.Context, tx *txn.Tx, name string) error {
	_, err := txn.Join(ctx, tx, name, func(ctx context.Context, enlist txn.EnlistFunc) (soleResource, error) {
		_, err := enlist(ctx, "", nil)
		return soleResource{&fakeResource{m.fakeManager, name}}, err
	})
	return err
}

// TestOneBranchOfLastDecides is committed as any single one.
func TestOneBranchOfLastDecides(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newNamingManager()
		if err := txn.Run(t.Context(), m, lastDecides, m.soleThatLeft); err != nil {
			t.Fatal(err)
		}
		<-time.After(time.Minute)
		m.wantTrace(t, "begin bank= decides", "bank commits alone", "bank releases", "begin answered", "done b1=committed")
	})
}

// TestLastDecidesIsSentBehindTheProof: while the resource of the branch that is to decide is being opened, when its row is
// written, its enlistment is not sent.
func TestLastDecidesIsSentBehindTheProof(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newNamingManager()
		err := txn.Run(t.Context(), m, lastDecides, func(ctx context.Context, tx *txn.Tx) error {
			_, err := m.join(ctx, tx, "shop")
			_, err2 := txn.Join(ctx, tx, "bank", func(ctx context.Context, enlist txn.EnlistFunc) (soleResource, error) {
				_, err := enlist(ctx, "", nil)
				<-time.After(time.Minute)
				m.tell("bank writes its row")
				return soleResource{&fakeResource{m.fakeManager, "bank"}}, err
			})
			return errors.Join(err, err2)
		})
		if err != nil {
			t.Fatal(err)
		}
		m.wantTrace(t, "begin shop=session-of-shop", "begin answered", "bank writes its row", "enlist bank= decides", "enlist answered",
			"shop prepares", "bank commits alone", "bank releases", "shop commits", "shop releases", "done b1=committed b2=committed")
	})
}

// TestLastDecidesIsRevokedWhileOthersPrepare: the id is given out in the middle of the commit. The coordinator has been told
// before the id is out, and the branch then prepares as the others have.
func TestLastDecidesIsRevokedWhileOthersPrepare(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newNamingManager()
		var tx *txn.Tx
		err := txn.Run(t.Context(), m, lastDecides, func(ctx context.Context, own *txn.Tx) error {
			tx = own
			_, err := txn.Join(ctx, tx, "shop", func(ctx context.Context, enlist txn.EnlistFunc) (*sharingResource, error) {
				_, err := enlist(ctx, "", nil)
				return &sharingResource{fakeResource{m.fakeManager, "shop"}, func() { tx.ID(); m.tell("the id is out") }}, err
			})
			synctest.Wait()
			return errors.Join(err, m.soleAt(ctx, tx, "bank"))
		})
		if err != nil {
			t.Fatal(err)
		}
		m.wantTrace(t, "begin shop=", "begin answered", "enlist bank= decides", "enlist answered", "shop prepares", "enlist bank= revokes", "enlist answered", "the id is out",
			"bank prepares", "commit b1=prepared b2=prepared own=true", "bank commits", "bank releases", "shop commits", "shop releases", "done b1=committed b2=committed")
	})
}

// sharingResource gives the id out while it prepares.
type sharingResource struct {
	fakeResource
	share func()
}

func (r *sharingResource) Prepare(ctx context.Context) (txn.Vote, error) {
	v, err := r.fakeResource.Prepare(ctx)
	r.share()
	return v, err
}

// TestLastDecidesInItsFirstEnlistment: a branch that was enlisted before its resource could not be opened, and is opened later,
// is not appointed: the coordinator has answered that enlistment, and would take the next one for a repeat.
func TestLastDecidesInItsFirstEnlistment(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newNamingManager()
		err := txn.Run(t.Context(), m, lastDecides, func(ctx context.Context, tx *txn.Tx) error {
			err := m.soleThatLeft(ctx, tx)
			_, broken := txn.Join(ctx, tx, "shop", func(ctx context.Context, enlist txn.EnlistFunc) (soleResource, error) {
				_, err := enlist(ctx, "", nil)
				return soleResource{}, errors.Join(err, errOut)
			})
			if !errors.Is(broken, errOut) {
				t.Error(broken)
			}
			synctest.Wait()
			<-time.After(2 * m.delay)
			return errors.Join(err, m.soleAt(ctx, tx, "shop"))
		})
		if err != nil {
			t.Fatal(err)
		}
		got := m.told()
		if strings.Contains(got, "commits alone") || strings.Contains(got, "shop= decides") || !strings.Contains(got, "enlist shop= revokes") {
			t.Errorf("calls:\n%s", got)
		}
	})
}
