package node

import (
	"bytes"
	"context"
	"errors"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/txmgr/txmgr/internal/random"
	"github.com/txmgr/txmgr/node/backup"
	"github.com/txmgr/txmgr/txn"
)

// committed begins a transaction with the options, commits it, and waits until its outcome is
// forgotten.
func committedAndForgotten(t *testing.T, n *Node, o txn.Options) {
	t.Helper()
	ctx := context.Background()
	if _, err := n.Begin(ctx, o); err != nil {
		t.Fatal(err)
	}
	if _, err := n.Commit(ctx, o.ID, txn.CommitRequest{}); err != nil {
		t.Fatal(err)
	}
	for range 1000 {
		if _, err := n.Get(ctx, o.ID); errors.Is(err, txn.ErrNotFound) {
			return
		}
		pass(10 * time.Second)
		for range 3 { // ticks advance with entries, and retention with ticks
			if _, err := n.Commit(ctx, begin(t, n, time.Minute).ID, txn.CommitRequest{}); err != nil {
				t.Fatal(err)
			}
		}
	}
	t.Fatalf("%v is not forgotten", o.ID)
}

// refusedAsForgotten checks that a begin is rejected and records nothing. It returns the mark
// that comes with the error.
func refusedAsForgotten(t *testing.T, n *Node, what string, o txn.Options) txn.Mark {
	t.Helper()
	_, err := n.Begin(context.Background(), o)
	var e *txn.Error
	if !errors.As(err, &e) || !errors.Is(err, txn.ErrForgotten) || errors.Is(err, txn.ErrRolledBack) || e.ID != o.ID || e.Mark.IsZero() {
		t.Errorf("%s: %v; want: %v, with a mark", what, err, txn.ErrForgotten)
		return txn.Mark{}
	}
	if i, err := n.Get(context.Background(), o.ID); !errors.Is(err, txn.ErrNotFound) {
		t.Errorf("%s: it is %v, %v", what, i.State, err)
	}
	return e.Mark
}

// TestBeginOfAForgottenTransaction: on an embedded node a begin is repeated after its outcome was
// forgotten, because of the retention time or of too many outcomes. With the mark of the id it
// is recognized exactly, however short the retention; without it by the time in the id. The same
// holds after a restart.
func TestBeginOfAForgottenTransaction(t *testing.T) {
	for name, c := range map[string]struct {
		retention time.Duration
		retain    uint64
	}{
		"by time":   {10 * time.Minute, 1_000_000},
		"by number": {1000 * time.Hour, 5},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				dir := t.TempDir()
				conf := func(conf *Config) { conf.Retention, conf.Retain = c.retention, c.retain }
				n, err := tryOpen(t, dir, slow, conf)
				if err != nil {
					t.Fatal(err)
				}
				marked := txn.Options{ID: random.TransactionID(), Mark: begin(t, n, time.Minute).Mark}
				committedAndForgotten(t, n, marked)
				timed := txn.Options{ID: random.TransactionID()}
				if name == "by number" {
					// The retention is shorter than the allowed clock skew: without a mark a repeat
					// cannot be recognized.
					timed.Mark = refusedAsForgotten(t, n, "a new id without a mark", timed)
					timed.ID = random.TransactionID()
				}
				committedAndForgotten(t, n, timed)
				if err := n.Snapshot(); err != nil {
					t.Fatal(err)
				}
				if err := n.Close(); err != nil {
					t.Fatal(err)
				}
				n = open(t, dir, slow, conf)
				now := refusedAsForgotten(t, n, "with the mark of the id", marked)
				refusedAsForgotten(t, n, "without a mark", txn.Options{ID: marked.ID})
				refusedAsForgotten(t, n, "the other", timed)
				if _, err := n.Begin(t.Context(), txn.Options{ID: random.TransactionID(), Mark: now}); err != nil {
					t.Errorf("a new id, with the mark of the refusal: %v", err)
				}
				begin(t, n, time.Minute) // ids that the node makes are always new
				refusedAsForgotten(t, n, "an id from an hour ahead", txn.Options{ID: txn.NewID(time.Now().Add(time.Hour), [9]byte{1})})
			})
		})
	}
}

// TestBeginOfATransactionThatABackupDoesNotKnow: a transaction was committed after the backup was
// taken. In the restored cluster its begin is rejected, by the mark and by the time.
func TestBeginOfATransactionThatABackupDoesNotKnow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx := t.Context()
		n, err := tryOpen(t, t.TempDir(), slow)
		if err != nil {
			t.Fatal(err)
		}
		before := txn.Options{ID: random.TransactionID(), Mark: begin(t, n, time.Minute).Mark}
		if _, err := n.Begin(ctx, before); err != nil {
			t.Fatal(err)
		}
		var file bytes.Buffer
		if _, err := n.Admin().Backup(ctx, &file); err != nil {
			t.Fatal(err)
		}
		pass(10 * time.Minute)
		lost := txn.Options{ID: random.TransactionID(), Mark: begin(t, n, time.Minute).Mark}
		if _, err := n.Begin(ctx, lost); err != nil {
			t.Fatal(err)
		}
		if _, err := n.Commit(ctx, lost.ID, txn.CommitRequest{}); err != nil {
			t.Fatal(err)
		}
		if err := n.Close(); err != nil {
			t.Fatal(err)
		}
		for _, life := range []string{"first", "second"} { // the same backup is restored twice
			dir := filepath.Join(t.TempDir(), life)
			if _, err := backup.Restore(ctx, bytes.NewReader(file.Bytes()), dir); err != nil {
				t.Fatal(err)
			}
			if n, err = tryOpen(t, dir, slow); err != nil {
				t.Fatal(err)
			}
			wantErr(t, "while it is held", second(n.Begin(ctx, lost)), txn.ErrUnavailable, "restored from a backup")
			if err := n.Admin().ResumeRecovery(ctx, "ann", "compared"); err != nil {
				t.Fatal(err)
			}
			if _, err := n.Begin(ctx, before); err != nil {
				t.Errorf("what the backup knows: %v", err)
			}
			refusedAsForgotten(t, n, life+" life, by the mark", lost)
			refusedAsForgotten(t, n, life+" life, by the time", txn.Options{ID: lost.ID})
			pass(20 * time.Minute)
			refusedAsForgotten(t, n, life+" life, by the mark, later", lost)
			refusedAsForgotten(t, n, life+" life, by the time, later", txn.Options{ID: lost.ID})
			lost = txn.Options{ID: random.TransactionID(), Mark: begin(t, n, time.Minute).Mark} // of this incarnation
			if _, err := n.Begin(ctx, lost); err != nil {
				t.Error(err)
			}
			if _, err := n.Commit(ctx, lost.ID, txn.CommitRequest{}); err != nil {
				t.Error(err)
			}
			if err := n.Close(); err != nil {
				t.Fatal(err)
			}
		}
	})
}
