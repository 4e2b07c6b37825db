package txn_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/txmgr/txmgr/txn"
)

// TestAppointedBranchWaitsForNothing: a single branch that can prove its end commits while the begin that appoints it is on
// its way; the report follows the begin.
func TestAppointedBranchWaitsForNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newNamingManager()
		m.delay = time.Second
		began := time.Now()
		if err := txn.Run(t.Context(), m, txn.Options{Name: t.Name()}, m.soleThatLeft); err != nil {
			t.Fatal(err)
		}
		if took := time.Since(began); took != 0 {
			t.Errorf("took %v", took)
		}
		<-time.After(2 * m.delay)
		m.wantTrace(t, "begin bank= decides", "bank commits alone", "bank releases", "begin answered", "done b1=committed")
	})
}

// soleThatLeft is sole, and returns when the begin has left.
func (m *namingManager) soleThatLeft(ctx context.Context, tx *txn.Tx) error {
	err := m.sole(ctx, tx)
	synctest.Wait()
	return err
}

// TestAppointmentNeedsACoordinatorThatKnowsOfIt: one that ignores the appointment would roll back at the deadline what is
// committed. The begin and the enlistment are awaited, and the decision is delegated.
func TestAppointmentNeedsACoordinatorThatKnowsOfIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newNamingManager()
		m.old = true
		if err := txn.Run(t.Context(), m, txn.Options{Name: t.Name()}, m.soleThatLeft); err != nil {
			t.Fatal(err)
		}
		<-time.After(2 * m.delay)
		m.wantTrace(t, "begin bank=", "begin answered", "delegate b1", "bank commits alone", "bank releases", "done b1=committed")
	})
}

// TestAppointmentIsSentBehindTheProof: nothing of the branch is sent while its resource is being opened, when the row that
// proves its end is written.
func TestAppointmentIsSentBehindTheProof(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newNamingManager()
		err := txn.Run(t.Context(), m, txn.Options{Name: t.Name()}, func(ctx context.Context, tx *txn.Tx) error {
			_, err := txn.Join(ctx, tx, "bank", func(ctx context.Context, enlist txn.EnlistFunc) (soleResource, error) {
				_, err := enlist(ctx, "", nil)
				<-time.After(time.Minute)
				m.tell("bank writes its row")
				return soleResource{&fakeResource{m.fakeManager, "bank"}}, err
			})
			<-time.After(time.Minute)
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		m.wantTrace(t, "bank writes its row", "begin bank= decides", "begin answered", "bank commits alone", "bank releases", "done b1=committed")
	})
}

// TestAppointmentThatTheCoordinatorRefuses: a begin that is refused before the commit rolls back; one that is refused, or
// lost, afterwards changes nothing.
func TestAppointmentThatTheCoordinatorRefuses(t *testing.T) {
	quota := &txn.Error{Op: "begin", Err: txn.ErrUnavailable, Detail: "quota"}
	for name, c := range map[string]struct {
		work  time.Duration
		want  error
		trace []string
	}{
		"before the commit": {time.Second, txn.ErrUnavailable, []string{"begin bank= decides", "begin answered", "bank rolls back", "bank releases"}},
		"after it":          {0, nil, []string{"begin bank= decides", "bank commits alone", "bank releases", "begin answered"}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m := newNamingManager()
				m.errs["begin"] = quota
				err := txn.Run(t.Context(), m, txn.Options{Name: t.Name()}, func(ctx context.Context, tx *txn.Tx) error {
					err := m.soleThatLeft(ctx, tx)
					<-time.After(c.work)
					return err
				})
				if c.want == nil && err != nil {
					t.Error(err)
				} else if c.want != nil {
					checkError(t, err, []error{txn.ErrRolledBack, c.want}, []error{txn.ErrInDoubt})
				}
				<-time.After(time.Second)
				m.wantTrace(t, c.trace...)
			})
		})
	}
}

// TestAnnouncementIsGivenUp: the goroutine that announces ends some time after the commit, also when no answer comes.
func TestAnnouncementIsGivenUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newNamingManager()
		m.delay = 24 * time.Hour
		if err := txn.Run(t.Context(), m, txn.Options{Name: t.Name()}, m.soleThatLeft); err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		synctest.Wait()
		<-time.After(10 * time.Second)
		synctest.Wait()
		m.wantTrace(t, "begin bank= decides", "bank commits alone", "bank releases")
		if time.Since(began) > time.Minute {
			t.Error("it was not given up")
		}
	}) // which fails while a goroutine is left
}

// TestAppointmentIsRevoked: a second branch, and others who get the id, find no branch that decides; nothing prepares, and the id is
// not given out, before the coordinator has answered that.
func TestAppointmentIsRevoked(t *testing.T) {
	for name, c := range map[string]struct {
		work  func(m *namingManager, ctx context.Context, tx *txn.Tx) error
		trace []string // until the first prepare
	}{
		"by a second branch, before it was sent": {
			func(m *namingManager, ctx context.Context, tx *txn.Tx) error {
				_, err := txn.Join(ctx, tx, "bank", func(ctx context.Context, enlist txn.EnlistFunc) (soleResource, error) {
					_, err := enlist(ctx, "", nil)
					_, err2 := m.join(ctx, tx, "shop")
					return soleResource{&fakeResource{m.fakeManager, "bank"}}, errors.Join(err, err2)
				})
				return err
			},
			[]string{"begin bank=,shop=session-of-shop", "begin answered"},
		},
		"by a second branch, on its way": {
			func(m *namingManager, ctx context.Context, tx *txn.Tx) error {
				err := m.soleThatLeft(ctx, tx)
				_, err2 := m.join(ctx, tx, "shop")
				return errors.Join(err, err2)
			},
			[]string{"begin bank= decides", "begin answered", "enlist shop=session-of-shop revokes", "enlist answered"},
		},
		"by a second branch whose resource cannot be opened": {
			func(m *namingManager, ctx context.Context, tx *txn.Tx) error {
				err := m.soleThatLeft(ctx, tx)
				_, err2 := txn.Join(ctx, tx, "shop", func(ctx context.Context, enlist txn.EnlistFunc) (soleResource, error) {
					_, _ = enlist(ctx, "", nil)
					return soleResource{}, errOut
				})
				if err2 == nil {
					err = errors.New("it was opened")
				}
				return err
			},
			[]string{"begin bank= decides", "begin answered", "enlist shop= revokes", "enlist answered", "delegate b1", "bank commits alone"},
		},
		"before the id is given out": {
			func(m *namingManager, ctx context.Context, tx *txn.Tx) error {
				err := m.soleThatLeft(ctx, tx)
				_ = tx.ID()
				m.tell("id known")
				return err
			},
			[]string{"begin bank= decides", "begin answered", "enlist bank= revokes", "enlist answered", "id known", "delegate b1", "bank commits alone"},
		},
		"by its resource, which cannot prove its end any more": {
			func(m *namingManager, ctx context.Context, tx *txn.Tx) error {
				var lost bool
				_, err := txn.Join(ctx, tx, "bank", func(ctx context.Context, enlist txn.EnlistFunc) (forgetfulResource, error) {
					_, err := enlist(ctx, "", nil)
					return forgetfulResource{soleResource{&fakeResource{m.fakeManager, "bank"}}, &lost}, err
				})
				synctest.Wait()
				lost = true
				return err
			},
			[]string{"begin bank= decides", "begin answered", "enlist bank= revokes", "enlist answered", "bank prepares"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m := newNamingManager()
				defer func() { <-time.After(time.Second) }() // what was not waited for ends
				if err := txn.Run(t.Context(), m, txn.Options{Name: t.Name()}, func(ctx context.Context, tx *txn.Tx) error { return c.work(m, ctx, tx) }); err != nil {
					t.Error(err)
				}
				calls := strings.Split(m.told(), "\n")
				for i, want := range c.trace {
					if i >= len(calls) || calls[i] != want {
						t.Fatalf("calls %q, want them to begin with %q", calls, c.trace)
					}
				}
			})
		})
	}
}

// TestNothingIsAppointedBehindTheBegin: a transaction that the coordinator has begun without the branch is rolled back at its
// deadline, so the branch waits for the coordinator as others do.
func TestNothingIsAppointedBehindTheBegin(t *testing.T) {
	for name, begin := range map[string]func(ctx context.Context, tx *txn.Tx) error{
		"awaited":  func(ctx context.Context, tx *txn.Tx) error { return tx.AwaitBegin(ctx) },
		"extended": func(ctx context.Context, tx *txn.Tx) error { return tx.Extend(ctx, time.Hour) },
		"given up": func(ctx context.Context, tx *txn.Tx) error {
			ctx, cancel := context.WithCancel(ctx)
			cancel()
			if tx.AwaitBegin(ctx) == nil {
				return errors.New("it was not given up")
			}
			synctest.Wait() // it has left
			return nil
		},
	} {
		for _, opening := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, while it is opened: %v", name, opening), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					m := newNamingManager()
					m.delay = time.Second
					defer func() { <-time.After(time.Minute) }() // what was not waited for ends
					err := txn.Run(t.Context(), m, txn.Options{Name: t.Name()}, func(ctx context.Context, tx *txn.Tx) (err error) {
						if !opening {
							err = begin(ctx, tx)
						}
						_, err2 := txn.Join(ctx, tx, "bank", func(ctx context.Context, enlist txn.EnlistFunc) (soleResource, error) {
							_, err := enlist(ctx, "", nil)
							if opening {
								err = errors.Join(err, begin(ctx, tx))
							}
							return soleResource{&fakeResource{m.fakeManager, "bank"}}, err
						})
						return errors.Join(err, err2)
					})
					if err != nil {
						t.Error(err)
					}
					calls := slices.DeleteFunc(strings.Split(m.told(), "\n"), func(call string) bool { return strings.HasPrefix(call, "extend") })
					want := []string{"begin ", "begin answered", "enlist bank=", "enlist answered", "delegate b1", "bank commits alone", "bank releases", "done b1=committed"}
					if diff := cmp.Diff(want, calls); diff != "" {
						t.Errorf("calls (-want +got):\n%s", diff)
					}
				})
			})
		}
	}
}

// forgetfulResource may lose the ability to commit in one phase.
type forgetfulResource struct {
	soleResource
	lost *bool
}

func (r forgetfulResource) OnePhase() bool { return !*r.lost }

// TestAppointedBranchIsRolledBack: the coordinator is told that the branch has rolled back, so that it need not be asked.
func TestAppointedBranchIsRolledBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newNamingManager()
		err := txn.Run(t.Context(), m, txn.Options{Name: t.Name()}, func(ctx context.Context, tx *txn.Tx) error {
			err := m.soleThatLeft(ctx, tx)
			return errors.Join(err, errOut)
		})
		checkError(t, err, []error{txn.ErrRolledBack, errOut}, nil)
		m.wantTrace(t, "begin bank= decides", "bank rolls back", "bank releases", "begin answered", "vote b1=no own=false: "+errOut.Error())
	})
}

// TestCommitOfAnAppointedBranchThatComesTooLate is not sent.
func TestCommitOfAnAppointedBranchThatComesTooLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newNamingManager()
		ctx, cancel := context.WithCancel(t.Context())
		tx, err := txn.Start(ctx, m, txn.Options{Name: t.Name()})
		if err := errors.Join(err, m.sole(ctx, tx)); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		cancel()
		checkError(t, tx.Commit(ctx), []error{txn.ErrRolledBack, context.Canceled}, []error{txn.ErrInDoubt})
		m.wantTrace(t, "begin bank= decides", "bank rolls back", "bank releases", "begin answered", "vote b1=no own=false: context canceled")
	})
}

// TestNameWithoutABranch: a branch behind one that was named and never opened is not prepared, since the coordinator does not
// know it.
func TestNameWithoutABranch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newNamingManager()
		err := txn.Run(t.Context(), m, txn.Options{Name: t.Name()}, func(ctx context.Context, tx *txn.Tx) error {
			_, err := m.join(ctx, tx, "bank")
			if _, ok := tx.BranchName("shop"); !ok {
				t.Error("no name")
			}
			_, err2 := m.join(ctx, tx, "mail")
			return errors.Join(err, err2)
		})
		checkError(t, err, []error{txn.ErrRolledBack, txn.ErrInvalid}, []error{txn.ErrInDoubt})
		if told := m.told(); strings.Contains(told, "prepares") {
			t.Errorf("calls:\n%s", told)
		}
	})
}
