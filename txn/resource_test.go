package txn_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/txmgr/txmgr/txn"
)

func start(t *testing.T, s *fakeManager) *txn.Tx {
	t.Helper()
	tx, err := txn.Start(t.Context(), s, txn.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return tx
}

func TestJoinOpensOnceForManyGoroutines(t *testing.T) {
	s := &fakeManager{}
	tx := start(t, s)
	var wg sync.WaitGroup
	got := make([]*fakeResource, 16)
	for i := range got {
		wg.Go(func() {
			p, err := s.join(t.Context(), tx, "bank")
			if err != nil {
				t.Error(err)
			}
			got[i] = p
		})
	}
	wg.Wait()
	for _, p := range got {
		if p == nil || p != got[0] {
			t.Errorf("got session %p, others %p", p, got[0])
		}
	}
	if err := tx.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	want := []string{"begin ", "enlist bank session-of-bank", "bank prepares", "commit b1=prepared own=true", "bank commits", "bank releases", "done b1=committed"}
	if diff := cmp.Diff(want, s.trace); diff != "" {
		t.Errorf("story (-want +got):\n%s", diff)
	}
}

func TestJoinThatFailedMayBeRepeated(t *testing.T) {
	s := &fakeManager{}
	tx := start(t, s)
	_, err := txn.Join(t.Context(), tx, "bank", func(context.Context, txn.EnlistFunc) (*fakeResource, error) { return nil, errOut })
	if !errors.Is(err, errOut) {
		t.Fatal(err)
	}
	if _, err := s.join(t.Context(), tx, "bank"); err != nil {
		t.Fatal(err)
	}
}

func TestPanicInOpenLetsOthersTry(t *testing.T) {
	s := &fakeManager{}
	tx := start(t, s)
	func() {
		defer func() {
			if recover() == nil {
				t.Error("the panic was swallowed")
			}
		}()
		_, _ = txn.Join(t.Context(), tx, "bank", func(context.Context, txn.EnlistFunc) (*fakeResource, error) { panic(errOut) })
	}()
	if _, err := s.join(t.Context(), tx, "bank"); err != nil {
		t.Fatal(err)
	}
}

// otherResource is a resource of another type.
type otherResource struct{ fakeResource }

func TestJoinWithAnotherTypeIsAConflict(t *testing.T) {
	s := &fakeManager{}
	tx := start(t, s)
	if _, err := s.join(t.Context(), tx, "bank"); err != nil {
		t.Fatal(err)
	}
	_, err := txn.Join(t.Context(), tx, "bank", func(context.Context, txn.EnlistFunc) (*otherResource, error) {
		t.Error("opened twice")
		return nil, nil
	})
	if !errors.Is(err, txn.ErrConflict) {
		t.Errorf("got %v", err)
	}
}

func TestWaitingForAnotherJoinEndsWithTheContext(t *testing.T) {
	s := &fakeManager{}
	tx := start(t, s)
	opening, let := make(chan struct{}), make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		_, err := txn.Join(t.Context(), tx, "bank", func(context.Context, txn.EnlistFunc) (*fakeResource, error) {
			close(opening)
			<-let
			return &fakeResource{s, "bank"}, nil
		})
		if err != nil {
			t.Error(err)
		}
	})
	<-opening
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(errOut)
	if _, err := s.join(ctx, tx, "bank"); !errors.Is(err, errOut) {
		t.Errorf("got %v", err)
	}
	close(let)
	wg.Wait()
}

// TestSessionOpenedTooLateUndoesItself: Rollback does not wait for a participant that is being
// joined, and the resource that is opened then must not be left open.
func TestSessionOpenedTooLateUndoesItself(t *testing.T) {
	s := &fakeManager{}
	tx := start(t, s)
	opening, let := make(chan struct{}), make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		_, err := txn.Join(t.Context(), tx, "bank", func(context.Context, txn.EnlistFunc) (*fakeResource, error) {
			close(opening)
			<-let
			return &fakeResource{s, "bank"}, nil
		})
		if !errors.Is(err, txn.ErrNotActive) {
			t.Errorf("got %v", err)
		}
	})
	<-opening
	if err := tx.Rollback(t.Context(), "changed my mind"); err != nil {
		t.Error(err)
	}
	close(let)
	wg.Wait()
	want := []string{"begin ", "rollback: changed my mind", "bank rolls back", "bank releases"}
	if diff := cmp.Diff(want, s.trace); diff != "" {
		t.Errorf("story (-want +got):\n%s", diff)
	}
}

func TestCommitWaitsForASessionThatIsBeingOpened(t *testing.T) {
	s := &fakeManager{}
	tx := start(t, s)
	opening, let := make(chan struct{}), make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		_, err := txn.Join(t.Context(), tx, "bank", func(ctx context.Context, enlist txn.EnlistFunc) (*fakeResource, error) {
			close(opening)
			<-let
			_, err := enlist(ctx, "late", nil)
			return &fakeResource{s, "bank"}, err
		})
		if err != nil {
			t.Error(err)
		}
	})
	<-opening
	wg.Go(func() {
		if err := tx.Commit(t.Context()); err != nil {
			t.Error(err)
		}
	})
	close(let)
	wg.Wait()
	want := []string{"begin ", "enlist bank late", "bank prepares", "commit b1=prepared own=true", "bank commits", "bank releases", "done b1=committed"}
	if diff := cmp.Diff(want, s.trace); diff != "" {
		t.Errorf("story (-want +got):\n%s", diff)
	}
}

func TestIDsKnowWhenTheyWereMade(t *testing.T) {
	at := time.Date(2026, 1, 2, 3, 4, 5, 678_900_000, time.UTC)
	if got := txn.NewID(at, [9]byte{1}).Time(); !got.Equal(at.Truncate(time.Millisecond)) {
		t.Errorf("made %v, want %v", got, at)
	}
}
