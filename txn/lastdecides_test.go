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
		"its answer is lost, and the outcome is not known": {
			end: unknownEnd, want: []error{txn.ErrInDoubt, errOut}, not: []error{txn.ErrRolledBack},
			trace: "shop prepares\nbank commits alone\nbank releases\nrollback: the answer to its one-phase commit was lost\nwait\nshop releases",
		},
		"its answer is lost, and the outcome can never be known": {
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

// TestBeginWithTheBranchThatIsAppointed, and another one, while a third one is being opened: the begin says who decides, and takes
// nothing back. The next enlistment does.
func TestBeginWithTheBranchThatIsAppointed(t *testing.T) {
	for _, opens := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			m := newNamingManager()
			m.hints = new(txn.BranchHints)
			if err := txn.Run(t.Context(), m, lastDecides, m.both); err != nil { // from now on the begin waits for a second branch
				t.Fatal(err)
			}
			m.trace, m.joined = nil, nil
			err := txn.Run(t.Context(), m, lastDecides, func(ctx context.Context, tx *txn.Tx) error {
				err := m.soleAt(ctx, tx, "bank")
				_, _ = tx.BranchName("shop")
				_, _ = tx.BranchName("mail")
				err = errors.Join(err, m.soleAt(ctx, tx, "shop"))
				<-time.After(time.Second)
				if opens {
					return errors.Join(err, m.soleAt(ctx, tx, "mail"))
				}
				_, broken := txn.Join(ctx, tx, "mail", func(context.Context, txn.EnlistFunc) (soleResource, error) { return soleResource{}, errOut })
				if broken == nil {
					t.Error("it opens")
				}
				return err
			})
			if err != nil {
				t.Error(err)
			}
			want := []string{"begin bank= decides,shop=", "begin answered", "shop prepares", "bank commits alone"}
			if opens {
				want = []string{"begin bank= decides,shop=", "begin answered", "enlist mail= decides revokes", "enlist answered", "mail commits alone"}
			}
			got := slices.DeleteFunc(m.trace, func(call string) bool { return opens && strings.HasSuffix(call, " prepares") })
			if len(got) < len(want) || !slices.Equal(got[:len(want)], want) {
				t.Errorf("calls: %q, want them to begin with %q", got, want)
			}
		})
	}
}

// TestLastDecidesWithABranchThatFailed: it was enlisted before its resource could not be opened, and will not vote. Then the commit
// of the last one must not speak for it.
func TestLastDecidesWithABranchThatFailed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newNamingManager()
		_ = txn.Run(t.Context(), m, lastDecides, func(ctx context.Context, tx *txn.Tx) error {
			_, err := m.join(ctx, tx, "shop")
			_, broken := txn.Join(ctx, tx, "mail", func(ctx context.Context, enlist txn.EnlistFunc) (soleResource, error) {
				_, err := enlist(ctx, "", nil)
				return soleResource{}, errors.Join(err, errOut)
			})
			if !errors.Is(broken, errOut) {
				t.Error(broken)
			}
			return errors.Join(err, m.soleAt(ctx, tx, "bank"))
		})
		if got := m.told(); strings.Contains(got, "commits alone") || !strings.Contains(got, "\ncommit b1=prepared b3=prepared ") {
			t.Errorf("calls:\n%s", got)
		}
	})
}

// TestLastDecidesBesideOneThatWasEnlistedAgain: the coordinator would appoint none, so none is asked for, and the log decides.
func TestLastDecidesBesideOneThatWasEnlistedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newNamingManager()
		err := txn.Run(t.Context(), m, lastDecides, func(ctx context.Context, tx *txn.Tx) error {
			_, broken := txn.Join(ctx, tx, "shop", func(ctx context.Context, enlist txn.EnlistFunc) (*fakeResource, error) {
				_, err := enlist(ctx, "the first session", nil)
				return nil, errors.Join(err, errOut)
			})
			synctest.Wait()
			_, err := m.join(ctx, tx, "shop")
			if broken == nil {
				t.Error("it opens")
			}
			return errors.Join(err, m.soleAt(ctx, tx, "bank"))
		})
		if got := m.told(); err != nil || strings.Contains(got, "decides") || strings.Contains(got, "commits alone") {
			t.Errorf("%v; calls:\n%s", err, got)
		}
	})
}

// lostResource cannot tell whether its own commit, or a statement of the application, has ended its branch.
type lostResource struct{ soleResource }

func (r lostResource) CommitOnePhase(context.Context) (txn.BranchState, error) {
	r.s.tell("%s commits alone", r.name)
	return 0, txn.ErrEndedByApplication
}

// TestLastDecidesAndMayHaveBeenEndedByTheApplication: the others do not end before it is known how it ended, and then alike.
func TestLastDecidesAndMayHaveBeenEndedByTheApplication(t *testing.T) {
	for state, want := range map[txn.State]string{
		txn.Committing:  "rollback: the answer to its one-phase commit was lost\nwait\nshop commits\nshop releases\ndone b1=committed\nwait",
		txn.RollingBack: "rollback: the answer to its one-phase commit was lost\nwait\nshop rolls back\nshop releases\ndone b1=rolled-back\nvote b2=ended-by-application own=false: bank: " + txn.ErrEndedByApplication.Error() + "\nwait",
	} {
		synctest.Test(t, func(t *testing.T) {
			m := newNamingManager()
			m.info = txn.Info{ID: theID, State: state}
			if state == txn.RollingBack {
				m.info.Cause = txn.CauseClient
			}
			err := txn.Run(t.Context(), m, lastDecides, func(ctx context.Context, tx *txn.Tx) error {
				_, err := m.join(ctx, tx, "shop")
				synctest.Wait()
				_, err2 := txn.Join(ctx, tx, "bank", func(ctx context.Context, enlist txn.EnlistFunc) (lostResource, error) {
					_, err := enlist(ctx, "", nil)
					return lostResource{soleResource{&fakeResource{m.fakeManager, "bank"}}}, err
				})
				return errors.Join(err, err2)
			})
			checkError(t, err, []error{txn.ErrEndedByApplication}, []error{txn.ErrRolledBack})
			if _, got, _ := strings.Cut(m.told(), "bank commits alone\nbank releases\n"); got != want {
				t.Errorf("%v: calls:\n%s\nwant:\n%s", state, got, want)
			}
		})
	}
}

// hesitantResource takes a while to commit, and cannot.
type hesitantResource struct{ soleResource }

func (r hesitantResource) CommitOnePhase(context.Context) (txn.BranchState, error) {
	<-time.After(time.Second)
	return txn.BranchRolledBack, errOut
}

// TestRunBesideACommitInOnePhase: Run says nothing of a commit that another goroutine makes, and that has not ended.
func TestRunBesideACommitInOnePhase(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newNamingManager()
		committed := make(chan error, 1)
		err := txn.Run(t.Context(), m, txn.Options{Name: "order"}, func(ctx context.Context, tx *txn.Tx) error {
			_, err := txn.Join(ctx, tx, "bank", func(ctx context.Context, enlist txn.EnlistFunc) (hesitantResource, error) {
				_, err := enlist(ctx, "", nil)
				return hesitantResource{soleResource{&fakeResource{m.fakeManager, "bank"}}}, err
			})
			go func() { committed <- tx.Commit(context.WithoutCancel(ctx)) }()
			synctest.Wait()
			return err
		})
		checkError(t, err, []error{txn.ErrInDoubt}, nil)
		checkError(t, <-committed, []error{txn.ErrRolledBack, errOut}, nil)
	})
}
