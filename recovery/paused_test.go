package recovery

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/txmgr/txmgr/txn"
)

// TestHeld: while recovery is paused an operator can look, and nothing is touched; once it
// is resumed, sweeps act, and commit records are pruned.
func TestHeld(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := newLog()
		res := newParticipant(log, "a")
		k := &fakePruner{fakeParticipant: res, rows: []string{txn.XID(cluster, idOf(9), 1)}}
		log.with(func() { log.parts["a"], log.held = k, true })
		r := begin(t, Config{SweepEvery: 5 * time.Second}, log)
		res.prepare(txn.XID(cluster, idOf(1), 1))
		<-time.After(10 * time.Minute) // many sweeps
		found, err := r.InspectLocks(t.Context(), "a")
		if err != nil || len(found) != 1 || found[0].Class != "rollback" || found[0].Done {
			t.Errorf("survey: %+v, %v", found, err)
		}
		if found, err = r.Sweep(t.Context(), "a", true); !errors.Is(err, txn.ErrUnavailable) || found != nil {
			t.Errorf("sweep: %+v, %v", found, err)
		}
		if rows, calls := k.left(); len(rows) != 1 || calls != 0 {
			t.Errorf("tidied up %d times", calls)
		}
		if n := len(res.made()); n != 0 || res.preparedCount() != 1 {
			t.Errorf("%d calls while held, %d prepared", n, res.preparedCount())
		}
		log.with(func() { log.held = false })
		<-time.After(time.Minute)
		rows, _ := k.left()
		if n := len(res.made()); n != 1 || res.preparedCount() != 0 || len(rows) != 0 {
			t.Errorf("%d calls afterwards, %d prepared, %q left", n, res.preparedCount(), rows)
		}
	})
}

// TestEvidenceOfLostTransactionsStays: an operator may need it.
func TestEvidenceOfLostTransactionsStays(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := newLog()
		recent := txn.NewID(time.Now(), [9]byte{})
		k := &fakePruner{fakeParticipant: newParticipant(log, "a"), rows: []string{txn.XID(cluster, recent, 1), txn.XID(cluster, idOf(9), 1)}}
		log.with(func() { log.parts["a"], log.memory = k, 24*time.Hour })
		begin(t, Config{SweepEvery: 5 * time.Second}, log)
		<-time.After(time.Hour)
		if rows, _ := k.left(); len(rows) != 1 {
			t.Errorf("%q are left", rows)
		}
		<-time.After(24 * time.Hour)
		if rows, _ := k.left(); len(rows) != 0 {
			t.Errorf("%q are left once they may have been forgotten", rows)
		}
	})
}
