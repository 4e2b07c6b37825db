package ledger

import (
	"bytes"
	"context"
	"encoding/hex"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"go.etcd.io/bbolt"

	"github.com/txmgr/txmgr/txn"
)

var someRow = row{state: "no", detail: "no stock", changed: time.UnixMilli(1700000000123).UTC()}

// TestFormOfARow must never be rewritten: files hold these bytes.
func TestFormOfARow(t *testing.T) {
	const want = "f6a1abfef962026e6f6e6f2073746f636b"
	if got := hex.EncodeToString(someRow.encode()); got != want {
		t.Errorf("%s, want %s", got, want)
	}
	if got, err := decodeRow(someRow.encode()); got != someRow || err != nil {
		t.Errorf("%+v, %v", got, err)
	}
}

func FuzzDecodeRow(f *testing.F) {
	f.Add(someRow.encode())
	f.Add([]byte{0, 255, 255, 255, 255, 255, 255, 255, 255, 127})
	f.Fuzz(func(t *testing.T, b []byte) {
		if r, err := decodeRow(b); err == nil && !bytes.Equal(r.encode(), b) {
			t.Errorf("%+v encodes otherwise", r)
		}
	})
}

type stepOf = func(ctx context.Context, w *Work, state, detail string) (string, string, error)

func to(state string, do func(ctx context.Context, w *Work) error) stepOf {
	return func(ctx context.Context, w *Work, _, _ string) (string, string, error) { return state, "", do(ctx, w) }
}

func stateOf(t *testing.T, b *Barrier, xid string) string {
	t.Helper()
	got := ""
	err := b.List(t.Context(), "", xid, "", 1, func(_, state string, _ time.Time) error { got = state; return nil })
	if err != nil {
		t.Fatal(err)
	}
	return got
}

// TestStepThatIsOvertakenIsUndone: by another step for the branch, and by a change of what it
// read.
func TestStepThatIsOvertakenIsUndone(t *testing.T) {
	l, path := newLedger(t)
	b, other := l.Barrier(), New("other", path).Barrier()
	err := b.Do(t.Context(), "x", to("prepared", func(ctx context.Context, w *Work) error {
		return errors.Join(w.Add(ctx, "alice", 1), other.Do(ctx, "x", to("rolled-back", func(context.Context, *Work) error { return nil })))
	}))
	if !errors.Is(err, errConflict) || stateOf(t, b, "x") != "rolled-back" {
		t.Errorf("%v, and it is %s", err, stateOf(t, b, "x"))
	}
	err = b.Do(t.Context(), "y", to("prepared", func(ctx context.Context, w *Work) error {
		n, err := w.Get(ctx, "alice")
		return errors.Join(err, w.Set(ctx, "alice", n+1), other.Do(ctx, "z", to("prepared", func(ctx context.Context, w *Work) error { return w.Add(ctx, "alice", 10) })))
	}))
	if !errors.Is(err, errConflict) || stateOf(t, b, "y") != "" {
		t.Errorf("%v, and it is %q", err, stateOf(t, b, "y"))
	}
	if total, err := l.Total(t.Context()); total != 10 || err != nil {
		t.Errorf("total %d, %v", total, err)
	}
}

func TestStepsAtOnceLoseNothing(t *testing.T) {
	_, path := newLedger(t)
	const workers, each = 4, 25
	var wg sync.WaitGroup
	for range workers {
		wg.Go(func() {
			b := New("one", path).Barrier()
			for range each {
				for done := false; !done; {
					err := b.Do(t.Context(), "x", func(ctx context.Context, w *Work, state, _ string) (string, string, error) {
						n, err := w.Get(ctx, "n")
						return map[string]string{"": "a", "a": "b", "b": "a"}[state], "", errors.Join(err, w.Set(ctx, "n", n+1))
					})
					if done = err == nil; !done && !errors.Is(err, errConflict) {
						t.Error(err)
						return
					}
				}
			}
		})
	}
	wg.Wait()
	if total, err := New("one", path).Total(t.Context()); total != workers*each || err != nil {
		t.Errorf("total %d, %v", total, err)
	}
}

// TestReadingThatOutlivesItsStep: a step returned while a goroutine that it had started still
// read. The read holds the branch and waits for the file; so the end of the step must not lock
// the file before it holds the branch.
func TestReadingThatOutlivesItsStep(t *testing.T) {
	_, path := newLedger(t)
	b := New("one", path).Barrier()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	read := make(chan error, 1)
	err := b.Do(ctx, "x", func(ctx context.Context, w *Work, _, _ string) (string, string, error) {
		reading := make(chan struct{})
		go func() {
			w.tx.mu.Lock()
			defer w.tx.mu.Unlock()
			close(reading)
			for range 1000 { // time for the step to end, and to lock the file if it does
				db, err := bbolt.Open(path, 0o600, &bbolt.Options{Timeout: time.Nanosecond})
				if err != nil {
					break
				}
				_ = db.Close()
			}
			_, err := w.tx.getLocked(ctx, "n")
			read <- err
		}()
		<-reading
		return "a", "", nil
	})
	if err != nil {
		t.Errorf("the step: %v", err)
	}
	if err := <-read; err != nil {
		t.Errorf("the reading: %v", err)
	}
}

func TestStepThatCannotBeDone(t *testing.T) {
	l, path := newLedger(t)
	local(t, l, "set bob 5")
	b := l.Barrier()
	held := newBranchTx(newStore(path), txn.ClusterPrefix("test")+"held")
	if _, err := held.do(t.Context(), statement{"add", []string{"bob"}, -1}); err != nil {
		t.Fatal(err)
	}
	if vote, err := held.Prepare(t.Context()); vote != txn.VotePrepared {
		t.Fatal(vote, err)
	}
	var after *Work
	for name, c := range map[string]struct {
		do      func(ctx context.Context, w *Work) error
		refused bool
		why     string
	}{
		"below zero":   {func(ctx context.Context, w *Work) error { return w.Move(ctx, "alice", "carol", 1) }, true, "below zero"},
		"locked":       {func(ctx context.Context, w *Work) error { return w.Add(ctx, "bob", 1) }, true, "locked"},
		"error":        {func(ctx context.Context, w *Work) error { return errors.Join(w.Add(ctx, "x", 1), errors.New("boom")) }, false, "boom"},
		"bad argument": {func(ctx context.Context, w *Work) error { after = w; return w.Set(ctx, "x", -1) }, false, "below zero"},
		"time is over": {func(context.Context, *Work) error { return nil }, false, "context canceled"},
	} {
		ctx, cancel := context.WithCancel(t.Context())
		err := b.Do(ctx, "x", func(ctx context.Context, w *Work, state, detail string) (string, string, error) {
			if name == "time is over" {
				cancel()
			}
			return "prepared", "", c.do(ctx, w)
		})
		cancel()
		var r interface {
			error
			Refused() bool
		}
		if err == nil || !strings.Contains(err.Error(), c.why) || errors.As(err, &r) != c.refused {
			t.Errorf("%s: %v", name, err)
		}
		if state := stateOf(t, b, "x"); state != "" {
			t.Errorf("%s: it is %s", name, state)
		}
	}
	for name, xid := range map[string]string{"no name": "", "long name": strings.Repeat("x", maxXID+1)} {
		if err := b.Do(t.Context(), xid, to("a", func(context.Context, *Work) error { return nil })); err == nil {
			t.Error(name)
		}
	}
	if err := b.Do(t.Context(), "x", to(strings.Repeat("s", maxState+1), func(context.Context, *Work) error { return nil })); err == nil {
		t.Error("long state")
	}
	if balances, err := l.Balances(t.Context()); len(balances) != 1 || err != nil {
		t.Errorf("%v, %v", balances, err)
	}

	check := b.Do(t.Context(), "y", to("prepared", func(_ context.Context, w *Work) error { after = w; return nil }))
	if err := after.Add(t.Context(), "x", 1); check != nil || !errors.Is(err, txn.ErrNotActive) {
		t.Errorf("work after its step: %v, %v", check, err)
	}
}

// TestBarrierInAFileOfOld: a ledger of a release without barriers gets one with its first row,
// and its other users are not affected.
func TestBarrierInAFileOfOld(t *testing.T) {
	l, _ := newLedger(t)
	local(t, l, "set alice 1")
	b := l.Barrier()
	if n, err := b.Prune(t.Context(), "prepared", time.Now()); n != 0 || err != nil {
		t.Errorf("pruned %d, %v", n, err)
	}
	if state := stateOf(t, b, "x"); state != "" {
		t.Errorf("state %s", state)
	}
	if err := b.Do(t.Context(), "x", to("prepared", func(ctx context.Context, w *Work) error { return w.Add(ctx, "alice", 1) })); err != nil {
		t.Error(err)
	}
	if err := l.Verify(t.Context()); err != nil {
		t.Error(err)
	}
}

// TestDamagedRowIsNamed: a bit flip in the file is no state.
func TestDamagedRowIsNamed(t *testing.T) {
	l, path := newLedger(t)
	b := l.Barrier()
	if err := b.Do(t.Context(), "x", to("prepared", func(context.Context, *Work) error { return nil })); err != nil {
		t.Fatal(err)
	}
	db, err := bbolt.Open(path, 0o600, nil)
	if err != nil {
		t.Fatal(err)
	}
	err = db.Update(func(tx *bbolt.Tx) error {
		bucket := tx.Bucket(bucketBarrier)
		sealed := bytes.Clone(bucket.Get([]byte("x")))
		sealed[len(sealed)-5] ^= 1
		return bucket.Put([]byte("x"), sealed)
	})
	if err = errors.Join(err, db.Close()); err != nil {
		t.Fatal(err)
	}
	for name, err := range map[string]error{
		"do":   b.Do(t.Context(), "x", to("committed", func(context.Context, *Work) error { return nil })),
		"list": b.List(t.Context(), "", "", "", 10, func(string, string, time.Time) error { return nil }),
	} {
		if !errors.Is(err, ErrCorrupt) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
