package ledger

import (
	"fmt"
	"testing"
	"time"

	"go.etcd.io/bbolt"

	"github.com/txmgr/txmgr/participant"
)

// ends returns the branches whose outcome is retained.
func ends(t *testing.T, l *Ledger) (xids []string) {
	t.Helper()
	err := l.store.view(t.Context(), func(tx *bbolt.Tx) error {
		return each(tx, bucketOrder, decodeText, func(_, xid string) error {
			if _, known, err := load(tx, bucketOutcomes, xid, decodeOutcome); err != nil || !known {
				return fmt.Errorf("%s: %v, %w", xid, known, err)
			}
			xids = append(xids, xid)
			return nil
		})
	})
	if err != nil {
		t.Fatal(err)
	}
	return xids
}

func record(t *testing.T, l *Ledger, xid string, now time.Time) {
	t.Helper()
	err := l.store.update(t.Context(), func(tx *bbolt.Tx) error { return recordOutcome(tx, xid, participant.Committed, now) })
	if err != nil {
		t.Fatal(err)
	}
}

func TestEndsAreForgottenWhenTheyAreOld(t *testing.T) {
	l, _ := newLedger(t)
	start := time.Unix(1700000000, 0)
	for n := range 5 {
		record(t, l, fmt.Sprint("old", n), start)
	}
	record(t, l, "young", start.Add(maxOutcomeAge-time.Second))
	if got := ends(t, l); len(got) != 6 {
		t.Errorf("forgot too early: %v", got)
	}
	record(t, l, "new1", start.Add(maxOutcomeAge))
	if got := fmt.Sprint(ends(t, l)); got != "[old2 old3 old4 young new1]" {
		t.Errorf("got %s", got)
	}
	record(t, l, "new2", start.Add(maxOutcomeAge))
	record(t, l, "new3", start.Add(maxOutcomeAge))
	if got := fmt.Sprint(ends(t, l)); got != "[young new1 new2 new3]" {
		t.Errorf("got %s", got)
	}
}

func TestEndsAreForgottenWhenTheyAreMany(t *testing.T) {
	l, _ := newLedger(t)
	now := time.Unix(1700000000, 0)
	record(t, l, "first", now) // number 1
	jump := func(to uint64) {
		if err := l.store.update(t.Context(), func(tx *bbolt.Tx) error { return tx.Bucket(bucketOrder).SetSequence(to - 1) }); err != nil {
			t.Fatal(err)
		}
	}
	jump(maxOutcomes)
	record(t, l, "last", now)
	if got := fmt.Sprint(ends(t, l)); got != "[first last]" {
		t.Errorf("forgot too early: %s", got)
	}
	record(t, l, "one more", now)
	if got := fmt.Sprint(ends(t, l)); got != "[last one more]" {
		t.Errorf("got %s", got)
	}
}

func TestFileOfAnotherFormatIsRefused(t *testing.T) {
	path := t.TempDir() + "/ledger.db"
	l := New("ledger", path)
	err := l.store.update(t.Context(), func(tx *bbolt.Tx) error { return put(tx, bucketMeta, []byte("format"), []byte{format + 1}) })
	if err != nil {
		t.Fatal(err)
	}
	if err := openParticipant(t, path).Check(t.Context()); err == nil {
		t.Error("a file of an unknown format is taken")
	}
}
