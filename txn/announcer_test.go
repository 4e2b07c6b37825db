package txn_test

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
)

// namingManager is a fakeManager that names transactions without a call, and whose calls take a
// while.
type namingManager struct {
	*fakeManager

	delay     time.Duration // of begin and enlist
	otherName bool          // the branches get other names than those that were foreseen
	old       bool          // it does not know that a branch may be appointed
	hints     *txn.BranchHints
	joined    []string // the participants, in the order of enlisting
}

func newNamingManager() *namingManager {
	return &namingManager{fakeManager: &fakeManager{errs: map[string]error{}}, delay: time.Millisecond}
}

func (m *namingManager) NameTransaction(_ context.Context, o txn.Options) (txn.Naming, bool) {
	o.ID, o.Timeout = theID, time.Hour
	return txn.Naming{Options: o, Cluster: "c1", Hints: m.hints, Appoints: !m.old}, true
}

func (m *namingManager) Begin(ctx context.Context, o txn.Options) (txn.BeginResult, error) {
	var names []string
	for _, e := range o.Branches {
		names = append(names, e.Participant+"="+e.SessionRef+flags(e))
	}
	m.tell("begin %s", strings.Join(names, ","))
	if err := m.answer(ctx, "begin"); err != nil {
		return txn.BeginResult{}, err
	}
	b := txn.BeginResult{ID: o.ID, Timeout: o.Timeout}
	for _, e := range o.Branches {
		b.Branches = append(b.Branches, m.branch(e))
	}
	return b, nil
}

func (m *namingManager) Enlist(ctx context.Context, _ txn.ID, e txn.Enlistment) (txn.Branch, error) {
	m.tell("enlist %s=%s%s", e.Participant, e.SessionRef, flags(e))
	if err := m.answer(ctx, "enlist"); err != nil {
		return txn.Branch{}, err
	}
	return m.branch(e), nil
}

func flags(e txn.Enlistment) (s string) {
	if e.Decides {
		s = " decides"
	}
	if e.Revokes {
		s += " revokes"
	}
	return s
}

func (m *namingManager) answer(ctx context.Context, call string) error {
	select {
	case <-time.After(m.delay):
	case <-ctx.Done():
		return ctx.Err()
	}
	m.tell("%s answered", call)
	return m.errs[call]
}

func (m *namingManager) branch(e txn.Enlistment) txn.Branch {
	m.mu.Lock()
	defer m.mu.Unlock()
	if !slices.Contains(m.joined, e.Participant) {
		m.joined = append(m.joined, e.Participant)
	}
	id := txn.BranchID(slices.Index(m.joined, e.Participant) + 1)
	if m.otherName {
		id++
	}
	return txn.Branch{ID: id, Participant: e.Participant, XID: txn.XID("c1", theID, id)}
}

// both joins two participants, in this order.
func (m *namingManager) both(ctx context.Context, tx *txn.Tx) error {
	_, err := m.join(ctx, tx, "bank")
	_, err2 := m.join(ctx, tx, "shop")
	return errors.Join(err, err2)
}

func (m *namingManager) wantTrace(t *testing.T, want ...string) {
	t.Helper()
	if diff := cmp.Diff(want, strings.Split(m.told(), "\n")); diff != "" {
		t.Errorf("calls (-want +got):\n%s", diff)
	}
}

// TestNothingPreparesBeforeTheCoordinatorKnows is the invariant of the announcer: the coordinator
// has answered the begin and every enlistment before the first resource is asked to prepare, or
// the decision is delegated. It is held whether the enlistments leave together or one by one.
func TestNothingPreparesBeforeTheCoordinatorKnows(t *testing.T) {
	for name, work := range map[string]func(m *namingManager, ctx context.Context, tx *txn.Tx) error{
		"both at once": (*namingManager).both,
		"one by one": func(m *namingManager, ctx context.Context, tx *txn.Tx) error {
			_, err := m.join(ctx, tx, "bank")
			<-time.After(5 * m.delay)
			_, err2 := m.join(ctx, tx, "shop")
			return errors.Join(err, err2)
		},
		"one": func(m *namingManager, ctx context.Context, tx *txn.Tx) error {
			_, err := m.join(ctx, tx, "bank")
			return err
		},
		"one whose id was shared": func(m *namingManager, ctx context.Context, tx *txn.Tx) error {
			err := m.sole(ctx, tx)
			_ = tx.ID()
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m := newNamingManager()
				err := txn.Run(t.Context(), m, txn.Options{Name: t.Name()}, func(ctx context.Context, tx *txn.Tx) error { return work(m, ctx, tx) })
				if err != nil {
					t.Fatal(err)
				}
				calls := strings.Split(m.told(), "\n")
				asked := slices.IndexFunc(calls, func(c string) bool {
					return strings.HasSuffix(c, " prepares") || strings.HasPrefix(c, "delegate")
				})
				if asked < 0 {
					t.Fatal("nothing prepared")
				}
				for i, c := range calls {
					if i > asked && (strings.HasPrefix(c, "begin") || strings.HasPrefix(c, "enlist")) {
						t.Errorf("%q after %q", c, calls[asked])
					}
				}
				if answers := slices.IndexFunc(calls, func(c string) bool { return c == "begin answered" }); answers < 0 {
					t.Errorf("prepared, and the begin was never answered: %q", calls)
				}
				<-time.After(10 * m.delay) // what was not waited for ends
			})
		})
	}
}

// soleResource commits in one phase.
type soleResource struct{ *fakeResource }

func (soleResource) OnePhase() bool { return true }

func (r soleResource) CommitOnePhase(context.Context) (txn.BranchState, error) {
	r.s.tell("%s commits alone", r.name)
	return txn.BranchCommitted, nil
}

// sole joins a participant whose resource commits in one phase.
func (m *namingManager) sole(ctx context.Context, tx *txn.Tx) error {
	_, err := txn.Join(ctx, tx, "bank", func(ctx context.Context, enlist txn.EnlistFunc) (soleResource, error) {
		_, err := enlist(ctx, "", nil)
		return soleResource{&fakeResource{m.fakeManager, "bank"}}, err
	})
	return err
}

// TestStartMakesNoCall: the work begins before the coordinator has heard of the transaction.
func TestStartMakesNoCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newNamingManager()
		began := time.Now()
		tx, err := txn.Start(t.Context(), m, txn.Options{Name: t.Name()})
		if err != nil {
			t.Fatal(err)
		}
		if err := m.both(t.Context(), tx); err != nil {
			t.Fatal(err)
		}
		if tx.String() != theID.String() || tx.Timeout() != time.Hour {
			t.Errorf("%v, %v", tx, tx.Timeout())
		}
		if took := time.Since(began); took != 0 {
			t.Errorf("the work waited for %v", took)
		}
		if err := tx.Commit(t.Context()); err != nil {
			t.Fatal(err)
		}
	})
}

// TestSecondBranchIsWaitedFor: where the latest transaction of the name had several branches, the
// begin waits for the second one, and then carries both; it waits 1 ms at most, and not at all
// when the transaction ends.
func TestSecondBranchIsWaitedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hints := new(txn.BranchHints)
		run := func(work func(m *namingManager, ctx context.Context, tx *txn.Tx)) *namingManager {
			m := newNamingManager()
			m.hints = hints
			if err := txn.Run(t.Context(), m, txn.Options{Name: t.Name()}, func(ctx context.Context, tx *txn.Tx) error {
				work(m, ctx, tx)
				return nil
			}); err != nil {
				t.Fatal(err)
			}
			return m
		}
		join := func(m *namingManager, ctx context.Context, tx *txn.Tx, name string) {
			if _, err := m.join(ctx, tx, name); err != nil {
				t.Error(err)
			}
			synctest.Wait()
		}
		sent := func(m *namingManager, want string) {
			t.Helper()
			if got := m.told(); got != want {
				t.Errorf("sent %q, want %q", got, want)
			}
		}
		run(func(m *namingManager, ctx context.Context, tx *txn.Tx) { // nothing is known of the name yet
			join(m, ctx, tx, "bank")
			sent(m, "begin bank=session-of-bank")
			join(m, ctx, tx, "shop")
		})
		run(func(m *namingManager, ctx context.Context, tx *txn.Tx) {
			join(m, ctx, tx, "bank")
			sent(m, "")
			join(m, ctx, tx, "shop")
			sent(m, "begin bank=session-of-bank,shop=session-of-shop")
		})
		run(func(m *namingManager, ctx context.Context, tx *txn.Tx) {
			join(m, ctx, tx, "bank")
			<-time.After((time.Millisecond - time.Microsecond))
			sent(m, "")
			<-time.After(time.Microsecond)
			synctest.Wait()
			sent(m, "begin bank=session-of-bank")
		})
		run(func(m *namingManager, ctx context.Context, tx *txn.Tx) { // the latest had one branch
			join(m, ctx, tx, "bank")
			sent(m, "begin bank=session-of-bank")
			join(m, ctx, tx, "shop")
		})
		began := time.Now()
		m := run(func(m *namingManager, ctx context.Context, tx *txn.Tx) { join(m, ctx, tx, "bank") })
		if took := time.Since(began); took != m.delay {
			t.Errorf("the commit took %v, want %v: it waited for a second branch", took, m.delay)
		}
	})
}

// TestRefusalsBehindTheWork: a refusal of the begin or of an enlistment rolls back, and the error
// has it in its chain. The coordinator is told of the rollback if it has begun the transaction.
func TestRefusalsBehindTheWork(t *testing.T) {
	quota := &txn.Error{Op: "begin", Err: txn.ErrUnavailable, Detail: "quota"}
	for name, c := range map[string]struct {
		errs      map[string]error
		otherName bool
		want      error
		trace     []string
	}{
		"of the begin": {
			errs: map[string]error{"begin": quota}, want: txn.ErrUnavailable,
			trace: []string{"begin bank=session-of-bank", "begin answered", "bank releases", "bank rolls back", "shop releases", "shop rolls back"},
		},
		"of an enlistment": {
			errs: map[string]error{"enlist": &txn.Error{Op: "enlist", Err: txn.ErrNotFound}}, want: txn.ErrNotFound,
			trace: []string{"begin bank=session-of-bank", "begin answered", "enlist shop=session-of-shop", "enlist answered", "bank releases", "bank rolls back", "shop releases", "shop rolls back", "rollback: enlist: not found", "done b1=rolled-back b2=rolled-back"},
		},
		"another name": {
			otherName: true, want: txn.ErrConflict,
			trace: []string{"begin bank=session-of-bank", "begin answered", "bank releases", "bank rolls back", "shop releases", "shop rolls back", "rollback:", "done b1=rolled-back b2=rolled-back"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m := newNamingManager()
				m.otherName = c.otherName
				for call, err := range c.errs {
					m.errs[call] = err
				}
				err := txn.Run(t.Context(), m, txn.Options{Name: t.Name()}, func(ctx context.Context, tx *txn.Tx) error {
					_, err := m.join(ctx, tx, "bank")
					synctest.Wait() // the begin has left with one branch
					_, err2 := m.join(ctx, tx, "shop")
					return errors.Join(err, err2)
				})
				checkError(t, err, []error{txn.ErrRolledBack, c.want}, []error{txn.ErrInDoubt, txn.ErrVotedNo, txn.ErrTimedOut})
				got := strings.Split(m.told(), "\n")
				for i, line := range got {
					if strings.HasPrefix(line, "rollback:") && c.otherName {
						got[i] = "rollback:"
					}
				}
				first := slices.IndexFunc(got, func(l string) bool { return strings.HasSuffix(l, "releases") || strings.HasSuffix(l, "rolls back") })
				slices.Sort(got[first : first+4])
				if diff := cmp.Diff(c.trace, got); diff != "" {
					t.Errorf("calls (-want +got):\n%s", diff)
				}
			})
		})
	}
}

// TestBeginInDoubtOfASharedTransaction: another service may work in a transaction whose begin had no
// answer, so only the coordinator can tell that it is rolled back.
func TestBeginInDoubtOfASharedTransaction(t *testing.T) {
	unavailable := &txn.Error{Op: "begin", Err: txn.ErrUnavailable}
	for name, c := range map[string]struct {
		begin, rollback error
		want, not       []error
	}{
		"the coordinator answers":  {unavailable, nil, []error{txn.ErrRolledBack, txn.ErrUnavailable}, []error{txn.ErrInDoubt}},
		"it does not":              {unavailable, unavailable, []error{txn.ErrInDoubt}, []error{txn.ErrRolledBack}},
		"it had refused the begin": {&txn.Error{Op: "begin", Err: txn.ErrConflict}, unavailable, []error{txn.ErrRolledBack, txn.ErrConflict}, []error{txn.ErrInDoubt}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m := newNamingManager()
				m.errs["begin"], m.errs["rollback"] = c.begin, c.rollback
				err := txn.Run(t.Context(), m, txn.Options{}, func(ctx context.Context, tx *txn.Tx) error {
					_, err := m.join(ctx, tx, "bank")
					txn.Inject(mapHeader{}, tx)
					return err
				})
				checkError(t, err, c.want, c.not)
			})
		})
	}
}

// TestJoinAfterARefusal fails: the work need not go on.
func TestJoinAfterARefusal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newNamingManager()
		m.errs["begin"] = &txn.Error{Op: "begin", Err: txn.ErrUnavailable}
		tx, err := txn.Start(t.Context(), m, txn.Options{Name: t.Name()})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := m.join(t.Context(), tx, "bank"); err != nil {
			t.Fatal(err)
		}
		<-time.After(2 * m.delay)
		if _, err := m.join(t.Context(), tx, "shop"); !errors.Is(err, txn.ErrUnavailable) {
			t.Errorf("%v, want what the begin was refused with", err)
		}
		if err := tx.AwaitBegin(t.Context()); !errors.Is(err, txn.ErrUnavailable) {
			t.Errorf("%v, want what the begin was refused with", err)
		}
		if err := tx.Rollback(t.Context(), "refused"); err != nil {
			t.Error(err)
		}
	})
}

// TestAwaitBeginOption: every call is waited for, and its error is that of Start.
func TestAwaitBeginOption(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newNamingManager()
		m.errs["begin"] = &txn.Error{Op: "begin", Err: txn.ErrUnavailable}
		if _, err := txn.Start(t.Context(), m, txn.Options{AwaitBegin: true}); !errors.Is(err, txn.ErrUnavailable) || errors.Is(err, txn.ErrRolledBack) {
			t.Error(err)
		}
		m.wantTrace(t, "begin ", "begin answered")
	})
}

// TestIDIsOfABegunTransaction: the id is given out, to the caller, to another service and in an
// extension, when the coordinator knows it. From then on others may enlist, and no branch is named
// before its enlistment is answered.
func TestIDIsOfABegunTransaction(t *testing.T) {
	for name, c := range map[string]struct {
		use    func(t *testing.T, tx *txn.Tx)
		shares bool
	}{
		"ID":     {func(_ *testing.T, tx *txn.Tx) { _ = tx.ID() }, true},
		"Inject": {func(_ *testing.T, tx *txn.Tx) { txn.Inject(mapHeader{}, tx) }, true},
		"Enlist": {func(t *testing.T, tx *txn.Tx) {
			if _, err := tx.Enlist(t.Context(), txn.Enlistment{Participant: "mail"}); err != nil {
				t.Error(err)
			}
		}, true},
		"Extend": {func(t *testing.T, tx *txn.Tx) {
			if err := tx.Extend(t.Context(), 2*time.Hour); err != nil {
				t.Error(err)
			}
		}, false},
		"AwaitBegin": {func(t *testing.T, tx *txn.Tx) {
			if err := tx.AwaitBegin(t.Context()); err != nil {
				t.Error(err)
			}
		}, false},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m := newNamingManager()
				tx, err := txn.Start(t.Context(), m, txn.Options{Name: t.Name()})
				if err != nil {
					t.Fatal(err)
				}
				c.use(t, tx)
				if got := m.told(); !strings.HasPrefix(got, "begin \nbegin answered") {
					t.Errorf("the id was given out, and the calls so far are %q", got)
				}
				joining := time.Now()
				if _, err := m.join(t.Context(), tx, "bank"); err != nil {
					t.Fatal(err)
				}
				if waited := time.Since(joining) > 0; waited != c.shares {
					t.Errorf("the enlistment was waited for: %v, want %v", waited, c.shares)
				}
				if err := tx.Commit(t.Context()); err != nil {
					t.Error(err)
				}
			})
		})
	}
}

type mapHeader map[string]string

func (h mapHeader) Get(key string) string { return h[key] }
func (h mapHeader) Set(key, value string) { h[key] = value }

// TestTransactionWithoutBranches is not sent, unless its id was asked for.
func TestTransactionWithoutBranches(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newNamingManager()
		if err := txn.Run(t.Context(), m, txn.Options{}, func(context.Context, *txn.Tx) error { return nil }); err != nil {
			t.Error(err)
		}
		if err := txn.Run(t.Context(), m, txn.Options{}, func(context.Context, *txn.Tx) error { return errOut }); !errors.Is(err, txn.ErrRolledBack) || !errors.Is(err, errOut) {
			t.Error(err)
		}
		tx, err := txn.Start(t.Context(), m, txn.Options{})
		if err != nil {
			t.Fatal(err)
		}
		if err := tx.Commit(t.Context()); err != nil {
			t.Error(err)
		}
		if err := tx.AwaitBegin(t.Context()); !errors.Is(err, txn.ErrNotActive) {
			t.Errorf("begun after its end: %v", err)
		}
		m.wantTrace(t, "")
		if err := txn.Run(t.Context(), m, txn.Options{}, func(_ context.Context, tx *txn.Tx) error { _ = tx.ID(); return nil }); err != nil {
			t.Error(err)
		}
		m.wantTrace(t, "begin ", "begin answered", "commit  own=false")
	})
}

// TestBeginWithoutAnAnswer: nothing has prepared, so the end of the caller's patience is a
// rollback, and not in doubt.
func TestBeginWithoutAnAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newNamingManager()
		m.delay = time.Hour
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		began := time.Now()
		err := txn.Run(ctx, m, txn.Options{Name: t.Name()}, m.both)
		checkError(t, err, []error{txn.ErrRolledBack}, []error{txn.ErrInDoubt, txn.ErrVotedNo})
		if took := time.Since(began); took > time.Minute+11*time.Second {
			t.Errorf("took %v", took)
		}
		for _, c := range strings.Split(m.told(), "\n") {
			if strings.HasSuffix(c, "prepares") || strings.HasPrefix(c, "rollback") {
				t.Errorf("%q, although the coordinator may not have begun it", c)
			}
		}
	})
}

// TestSessionThatIsOpenedAgain: a resource whose opening failed after its enlistment has another
// session the second time; the branch keeps its name.
func TestSessionThatIsOpenedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newNamingManager()
		tx, err := txn.Start(t.Context(), m, txn.Options{Name: t.Name()})
		if err != nil {
			t.Fatal(err)
		}
		_, err = txn.Join(t.Context(), tx, "bank", func(ctx context.Context, enlist txn.EnlistFunc) (*fakeResource, error) {
			if b, err := enlist(ctx, "first", nil); err != nil || b.XID != txn.XID("c1", theID, 1) {
				t.Errorf("%+v, %v", b, err)
			}
			return nil, errOut
		})
		if !errors.Is(err, errOut) {
			t.Fatal(err)
		}
		_, err = txn.Join(t.Context(), tx, "bank", func(ctx context.Context, enlist txn.EnlistFunc) (*fakeResource, error) {
			b, err := enlist(ctx, "second", nil)
			if b.XID != txn.XID("c1", theID, 1) {
				t.Errorf("%+v", b)
			}
			return &fakeResource{m.fakeManager, "bank"}, err
		})
		if err != nil {
			t.Fatal(err)
		}
		if err := tx.AwaitBegin(t.Context()); err != nil {
			t.Fatal(err)
		}
		if got := m.told(); !strings.Contains(got, "bank=second") {
			t.Errorf("the coordinator was not told of the second session: %q", got)
		}
		if err := tx.Rollback(t.Context(), "enough"); err != nil {
			t.Error(err)
		}
	})
}
