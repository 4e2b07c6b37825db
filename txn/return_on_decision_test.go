package txn_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/txmgr/txmgr/txn"
)

// blockedResource is a resource whose Commit waits until it may go on, or its context ends.
type blockedResource struct {
	fakeResource
	goOn <-chan struct{}
}

func (r *blockedResource) Commit(ctx context.Context) error {
	select {
	case <-r.goOn:
		return r.fakeResource.Commit(ctx)
	case <-ctx.Done():
		r.s.tell("%s gives up", r.name)
		return ctx.Err()
	}
}

// runBlocked commits a transaction of a bank, whose resource may block, and a shop.
func runBlocked(ctx context.Context, s *fakeManager, o txn.Options, goOn <-chan struct{}) (tx *txn.Tx, err error) {
	err = txn.Run(ctx, s, o, func(ctx context.Context, began *txn.Tx) error {
		tx = began
		_, err := txn.Join(ctx, tx, "bank", func(ctx context.Context, enlist txn.EnlistFunc) (*blockedResource, error) {
			_, err := enlist(ctx, "session-of-bank", nil)
			return &blockedResource{fakeResource{s, "bank"}, goOn}, err
		})
		if err == nil {
			_, err = s.join(ctx, tx, "shop")
		}
		return err
	})
	return tx, err
}

// TestReturnOnDecision: the commit returns while a resource commits. The end of its caller's
// context changes nothing of that, and the transaction is over for the application.
func TestReturnOnDecision(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, goOn := &fakeManager{}, make(chan struct{})
		ctx, cancel := context.WithCancel(t.Context())
		tx, err := runBlocked(ctx, s, txn.Options{Name: "order", ReturnOnDecision: true}, goOn)
		if err != nil {
			t.Fatal(err)
		}
		cancel()
		var over *txn.Error
		if err := tx.Rollback(t.Context(), "late"); !errors.Is(err, txn.ErrNotActive) || !errors.As(err, &over) || over.State != txn.Committing {
			t.Errorf("rollback after the decision: %v", err)
		}
		if _, err := s.join(t.Context(), tx, "bank"); !errors.Is(err, txn.ErrNotActive) {
			t.Errorf("work after the decision: %v", err)
		}
		synctest.Wait()
		if told := s.told(); strings.Contains(told, "bank releases") || strings.Contains(told, "done") || !strings.Contains(told, "shop releases") {
			t.Errorf("while the bank commits:\n%s", told)
		}
		close(goOn)
		synctest.Wait()
		if told := s.told(); !strings.HasSuffix(told, "bank commits\nbank releases\nshop commits\nshop releases\ndone b1=committed b2=committed") {
			t.Errorf("afterwards:\n%s", told)
		}
	})
}

// TestReturnOnDecisionIsBounded: a resource that does not commit is released after ten seconds,
// and left to the coordinator. The bubble shows that no goroutine stays behind.
func TestReturnOnDecisionIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, began := &fakeManager{}, time.Now()
		if _, err := runBlocked(t.Context(), s, txn.Options{ReturnOnDecision: true}, nil); err != nil || time.Since(began) != 0 {
			t.Fatalf("%v after %v", err, time.Since(began))
		}
		<-time.After(10*time.Second - 1)
		synctest.Wait()
		if told := s.told(); strings.Contains(told, "bank releases") {
			t.Errorf("before ten seconds:\n%s", told)
		}
		<-time.After(1)
		synctest.Wait()
		if told := s.told(); !strings.HasSuffix(told, "bank gives up\nbank releases\nshop commits\nshop releases\ndone b2=committed") {
			t.Errorf("after ten seconds:\n%s", told)
		}
	})
}

// TestReturnWithoutTheOption: the commit returns when the resources have been released.
func TestReturnWithoutTheOption(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, goOn := &fakeManager{}, make(chan struct{})
		time.AfterFunc(3*time.Second, func() { close(goOn) })
		began := time.Now()
		if _, err := runBlocked(t.Context(), s, txn.Options{}, goOn); err != nil || time.Since(began) != 3*time.Second {
			t.Errorf("%v after %v", err, time.Since(began))
		}
		if told := s.told(); !strings.HasSuffix(told, "done b1=committed b2=committed") {
			t.Errorf("not reported:\n%s", told)
		}
	})
}

// TestReturnOnDecisionOfARollback: what is not decided to commit returns as without the option,
// when the resources have rolled back, or were left in doubt.
func TestReturnOnDecisionOfARollback(t *testing.T) {
	for name, c := range map[string]struct {
		answer, want error
		end          string
	}{
		"rolled back": {&txn.Error{Err: txn.ErrRolledBack, State: txn.RollingBack, Cause: txn.CauseTimeout}, txn.ErrRolledBack, "shop rolls back\nshop releases\ndone b1=rolled-back b2=rolled-back"},
		"in doubt":    {&txn.Error{Err: txn.ErrInDoubt}, txn.ErrInDoubt, "bank releases\nshop releases"},
	} {
		t.Run(name, func(t *testing.T) {
			s := &fakeManager{errs: map[string]error{"commit": c.answer}}
			_, err := runBlocked(t.Context(), s, txn.Options{ReturnOnDecision: true}, nil)
			if !errors.Is(err, c.want) {
				t.Errorf("got %v", err)
			}
			if told := s.told(); !strings.HasSuffix(told, c.end) {
				t.Errorf("it returned after\n%s", told)
			}
		})
	}
}

// TestReturnOnDecisionToTheFunction: a function that commits by itself returns to Run before the
// resources have committed, and Run knows the decision.
func TestReturnOnDecisionToTheFunction(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &fakeManager{}
		err := txn.Run(t.Context(), s, txn.Options{ReturnOnDecision: true}, func(ctx context.Context, tx *txn.Tx) error {
			if _, err := s.join(ctx, tx, "bank"); err != nil {
				return err
			}
			return tx.Commit(ctx)
		})
		if err != nil {
			t.Error(err)
		}
	})
}
